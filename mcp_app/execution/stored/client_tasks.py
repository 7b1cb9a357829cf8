"""Stored calls as tasks, for the clients that made them. This module changes no rows.

A client sees only one kind of tasks: those of modern revisions, or core tasks of 2025-11-25.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.execution.questions import open_questions
from mcp_app.execution.stored import statements
from mcp_app.execution.stored.call_record import CallRecord, record
from mcp_app.execution.stored.pending_approvals import waiting_words
from mcp_app.models import Call
from mcp_app.protocol.call_state import State, is_terminal
from mcp_app.protocol.features.tasks import Status, Task
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.versions import V2025_11_25, is_modern

STOPPING = "Stopping"
FAILED = "The tool reported an error: its result says which."
LONGEST_MESSAGE = 500
# Large columns, left out of lists.
LARGE = ("arguments", "answer")


def created(call: CallRecord) -> Task:
    """Return the task of a newly accepted call."""
    assert call.task_until is not None
    return Task(
        id=str(call.id),
        status=Status.WORKING,
        created_at=call.accepted_at,
        updated_at=call.accepted_at,
        until=call.task_until,
        poll_ms=conf.get().task_poll_ms,
        message=waiting_words(call) if call.waits_for_approval else "",
    )


def find(task_id: str, principal: str, path: str, *, core: bool = False) -> tuple[Task, CallRecord] | None:
    """Return a principal's task and its call with one indexed read. ``core`` selects tasks of 2025-11-25.

    ``path`` is the path of the MCP server that was asked. Return None if the call is unknown, belongs to
    another caller or server, is not a task, or is an expired task (TASKX-11, TASKX-18, TASK4-12).
    """
    row = _row(task_id)
    if row is None or row.principal != principal or _path(row) != path or _is_core(row) != core:
        return None
    return _task(row), record(row)


def page(principal: str, path: str, after: tuple[datetime, UUID] | None, size: int) -> list[Task]:
    """Return up to ``size`` + 1 core tasks of a principal at the server at ``path``, newest first.

    All of them follow ``after``.
    """
    # A session stores its path only where it is not ENDPOINT.
    at_server = Q(session_fields__path__isnull=True) if path == ENDPOINT else Q(session_fields__path=path)
    rows = Call.objects.filter(
        at_server, principal=principal, task_until__gt=clock.now(), session_fields__version=V2025_11_25
    ).annotate(**clock.read_at())
    if after is not None:
        at, key = after
        rows = rows.filter(Q(accepted_at__lt=at) | Q(accepted_at=at, pk__lt=key))
    return [_task(row) for row in rows.defer(*LARGE).order_by("-accepted_at", "-pk")[: size + 1]]


def load(task_id: str) -> Task | None:
    """Return a task by its id. The caller must have checked that the client owns it."""
    row = _row(task_id)
    return None if row is None else _task(row)


def _row(task_id: str) -> Call | None:
    try:
        key = UUID(task_id)
    except ValueError:
        return None
    # Accept only one spelling of the id, because clients also use it in headers and subscriptions.
    row = statements.find(key) if str(key) == task_id else None
    if row is None or row.task_until is None or row.read_at is None:
        return None
    return row if row.task_until > row.read_at else None


def _task(row: Call) -> Task:
    assert row.task_until is not None
    status, message, rest = _ended(row) if is_terminal(row.state) else _unfinished(row)
    moments = (
        row.accepted_at,
        row.decided_at,
        row.started_at,
        row.progress_at,
        row.cancel_requested_at,
        row.finished_at,
    )
    return Task(
        id=str(row.pk),
        status=status,
        created_at=row.accepted_at,
        updated_at=max(moment for moment in moments if moment is not None),
        until=row.task_until,
        poll_ms=conf.get().task_poll_ms,
        message=message,
        rest=rest,
    )


def _path(row: Call) -> str:
    return str(row.session_fields.get("path", ENDPOINT))


def _is_core(row: Call) -> bool:
    return not is_modern(row.session_fields["version"])


def _ended(row: Call) -> tuple[Status, str, dict[str, Any]]:
    """Return the status, message and members of a finished call.

    The answer and not the call's state decides between completed and failed. A tool's own error completes a
    task of the extension (TASKX-07) but fails a core task (TASK4-08).
    """
    if row.state == State.CANCELLED:
        return Status.CANCELLED, row.cancel_reason, {}
    if _is_core(row):
        return (Status.COMPLETED, "", {}) if row.outcome == "ok" else (Status.FAILED, _failure(row), {})
    answer = orjson.loads(row.answer)
    if "error" in answer:
        return Status.FAILED, answer["error"]["message"], {"error": answer["error"]}
    return Status.COMPLETED, "", {"result": answer["result"]}


def _failure(row: Call) -> str:
    """Return the error text of a failed core task, or a general text if the answer was not loaded."""
    if "answer" in row.get_deferred_fields():
        return FAILED
    answer = orjson.loads(row.answer)
    if "error" in answer:
        return str(answer["error"]["message"])
    texts = [block["text"] for block in answer["result"]["content"] if block["type"] == "text"]
    return texts[0][:LONGEST_MESSAGE] if texts else FAILED


def _unfinished(row: Call) -> tuple[Status, str, dict[str, Any]]:
    """Return the status, message and members of an unfinished call."""
    if row.cancel_requested_at is not None:
        return Status.WORKING, STOPPING, {}
    if row.state == State.INPUT_REQUIRED and row.inputs is not None:
        asked = open_questions.requests(orjson.loads(row.inputs))
        return Status.INPUT_REQUIRED, _progress(row), {"inputRequests": asked}
    if row.state == State.APPROVAL_NEEDED:
        return Status.WORKING, waiting_words(row), {}
    return Status.WORKING, _progress(row), {}


def _progress(row: Call) -> str:
    """Return the worker's latest progress message (CEL-08), or the numbers if there is no message."""
    if row.message or row.progress is None:
        return row.message
    return f"{row.progress:g}" if row.total is None else f"{row.progress:g} of {row.total:g}"
