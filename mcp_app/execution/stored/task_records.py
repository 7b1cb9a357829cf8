"""Changes to tasks that wait for their clients: suspend, answer, expire.

Each change is a compare-and-set. A suspended task has no lease and no job. When its last open question is
answered, the task becomes an accepted call again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from django.db.models import F

from mcp_app.database import clock
from mcp_app.execution.questions import open_questions
from mcp_app.execution.stored import records, statements
from mcp_app.execution.stored.call_record import CallRecord, record
from mcp_app.models import Call
from mcp_app.protocol.call_state import State, Transition


def suspend(call_id: UUID, attempt: int, kept: Mapping[str, Any]) -> bool:
    """End a running attempt with its questions.

    Return False if the attempt has lost its call or the call was cancelled. Return True if the call is
    suspended, even if it was suspended before: a caller that does not know the outcome tries again.
    """
    mine = Call.objects.filter(pk=call_id, attempt=attempt)
    changed = records.move(
        mine.filter(cancel_requested_at=None),
        Transition.ASK,
        inputs=orjson.dumps(kept).decode(),
        lease_until=None,
        progress_at=clock.now(),
    )
    return bool(changed) or mine.filter(state=Transition.ASK.after, lease_until=None).exists()


def answer(call_id: UUID, responses: Mapping[str, dict[str, Any]]) -> tuple[CallRecord, bool] | None:
    """Store answers to open questions.

    Return the call, and True if the caller has to queue its next attempt. Return None if the answers match
    no open question. If several answers to one question race, the first counts. Only the answer to the last
    open question resumes the call (TASKX-08). Every resumption allows one more attempt, so that the number
    of lost attempts that are allowed stays the same (R6).
    """
    while True:
        row = statements.find(call_id)
        if row is None or row.state != State.INPUT_REQUIRED or row.inputs is None:
            return None
        kept = open_questions.answered(orjson.loads(row.inputs), responses)
        if kept is None:
            return None
        now = clock.now()
        values: dict[str, Any] = {"inputs": orjson.dumps(kept).decode(), "progress_at": now}
        if goes_on := not kept["open"]:
            values |= {
                "max_attempts": F("max_attempts") + 1,
                "enqueued_at": now,
                # As for a new call: a client that answers a hundred tasks at once has to wait for a hundred
                # starts.
                "start_tag": records.new_start_tag(call_id),
            }
        # Compare and set. Read again if another answer has changed the row or the task has ended.
        same = Call.objects.filter(
            pk=call_id,
            state=State.INPUT_REQUIRED,
            attempt=row.attempt,
            inputs=row.inputs,
            cancel_requested_at=None,
        )
        if records.move(same, Transition.RESUME, **values) if goes_on else same.update(**values):
            changed = records.find(call_id)
            return None if changed is None else (changed, goes_on)
        if row.cancel_requested_at is not None:
            return None


def outlived(limit: int = 100) -> list[CallRecord]:
    """Return expired tasks that have not finished."""
    rows = Call.objects.filter(records.OPEN, task_until__lt=clock.now(), cancel_requested_at=None)
    return [record(row) for row in rows[:limit]]
