"""The rows of waiting ``tasks/result`` requests: create, find and abandon. This module sends nothing."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import orjson
from django.db import transaction

from mcp_app.models import TaskWait

PREFIX = "wait-"
# More waits than any client needs. When a task has more, its oldest waits are abandoned.
MOST = 20


@dataclass(frozen=True, slots=True)
class Wait:
    """A ``tasks/result`` request, and the stream of its session on which it will be answered."""

    call_id: UUID
    session_id: str
    request_id: str | int
    stream: str


def begin(wait: Wait) -> list[Wait]:
    """Store a wait. Return the older waits that were deleted to make room for it."""
    with transaction.atomic():
        TaskWait.objects.create(
            call_id=wait.call_id,
            session_id=wait.session_id,
            request_id=orjson.dumps(wait.request_id).decode(),
            stream=wait.stream,
        )
        rows = TaskWait.objects.filter(call_id=wait.call_id)
        given_up = list(rows.order_by("-pk")[MOST:])
        rows.filter(pk__in=[row.pk for row in given_up]).delete()
    return [_wait(row) for row in given_up]


def of(call_id: UUID) -> list[Wait]:
    """Return all waits for a task, including those that have been answered."""
    return [_wait(row) for row in TaskWait.objects.filter(call_id=call_id)]


def find(session_id: str, stream: str) -> Wait | None:
    """Return the wait that will be answered on this stream of a session, or None."""
    row = TaskWait.objects.filter(session_id=session_id, stream=stream).first()
    return None if row is None else _wait(row)


def give_up(session_id: str, request_id: str | int) -> list[Wait]:
    """Delete and return the waits that belong to one request of a session."""
    rows = TaskWait.objects.filter(session_id=session_id, request_id=orjson.dumps(request_id).decode())
    found = list(rows)
    rows.filter(pk__in=[row.pk for row in found]).delete()
    return [_wait(row) for row in found]


def _wait(row: TaskWait) -> Wait:
    return Wait(row.call_id, row.session_id, orjson.loads(row.request_id), row.stream)
