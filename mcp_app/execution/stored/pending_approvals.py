"""Changes to calls that wait for approval: accept, decide, expire, remind.

Each change is a compare-and-set. Calls in this state have no lease and no attempt. When a call leaves the
state, it is an ordinary accepted call, or it has finished.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Exists, OuterRef

from mcp_app.database import clock
from mcp_app.execution.admission.checks import check_waiting
from mcp_app.execution.stored import call_record, records
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.models import Call, Session
from mcp_app.protocol.call_state import State, Transition
from mcp_app.protocol.principal_key import person_of

LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Waiting:
    """The values needed to notify a client that its call waits.

    The arguments are omitted, as they may be long.
    """

    tool: str
    session_id: str
    stream: str
    meta: dict[str, Any]
    session_fields: dict[str, str]
    accepted_at: datetime
    approval_until: datetime | None
    read_at: datetime | None

    @classmethod
    def of(cls, row: Any) -> Waiting:
        """Build the values from a row that was annotated with ``clock.read_at``."""
        meta = orjson.loads(row.meta)
        stream, session = row.stream, row.session_fields
        return cls(
            row.tool, row.session_id, stream, meta, session, row.accepted_at, row.approval_until, row.read_at
        )


WAITING_WORDS: Final = "Waiting for approval"


def waiting_words(call: CallRecord | Call | Waiting) -> str:
    """Return a text such as ``Waiting for approval (12 min left)``."""
    read_at = call.read_at or call.accepted_at
    until = call.approval_until or read_at
    minutes = max(0.0, (until - read_at).total_seconds()) / 60
    return f"{WAITING_WORDS} ({minutes:.0f} min left)" if minutes >= 1 else WAITING_WORDS


def accept(new: NewCall, most: int) -> tuple[CallRecord, bool]:
    """Store a call as ``records.accept`` does.

    Raise TooManyRequests if more than ``most`` calls of the person wait for approval.
    """
    with transaction.atomic():
        call, is_new = records.accept(new)
        if is_new:
            check_waiting(person_of(new.principal), most)
    return call, is_new


def approve(call_id: UUID, *, by: int | None, reason: str, four_eyes: bool = False) -> CallRecord | None:
    """Approve a waiting call. The caller has to queue its job next.

    Return None if the call no longer waits. ``four_eyes`` records that the decision was made under four
    eyes, even if the call was accepted without that rule.
    """
    now = clock.now()
    approved = _waiting().filter(pk=call_id, approval_until__gt=now, cancel_requested_at=None)
    decision = _decision(Call.Decision.APPROVED, now, by, reason)
    # The call starts to wait for a worker only now, so it gets the start tag of a new call.
    tag = records.new_start_tag(call_id)
    decision |= {"four_eyes": True} if four_eyes else {}
    if not records.move(approved, Transition.APPROVE, enqueued_at=now, start_tag=tag, **decision):
        return None
    return records.find(call_id)


def refuse(call_id: UUID, *, by: int | None, reason: str, answer: bytes) -> bool:
    """End a waiting call, with the refusal as its answer. Return False if the call no longer waits."""
    now = clock.now()
    refused = _waiting().filter(pk=call_id, approval_until__gt=now, cancel_requested_at=None)
    return _end(refused, answer, _decision(Call.Decision.REFUSED, now, by, reason))


def expire(call_id: UUID, answer: bytes) -> bool:
    """End a call that was not decided in time. Return False if it has been decided."""
    now = clock.now()
    late = _waiting().filter(pk=call_id, approval_until__lte=now)
    return _end(late, answer, _decision(Call.Decision.EXPIRED, now, None, ""))


def _waiting() -> Any:
    return Call.objects.filter(state=State.APPROVAL_NEEDED)


def _decision(decision: str, now: Any, by: int | None, reason: str) -> dict[str, Any]:
    words = records.storable(reason, LONGEST_REASON)
    return {"decision": decision, "decided_at": now, "decided_by_id": by, "decision_reason": words}


def _end(rows: Any, answer: bytes, decision: dict[str, Any]) -> bool:
    return bool(
        records.move(
            rows,
            Transition.REFUSE,
            outcome="tool_error",
            answer=answer.decode(),
            finished_at=decision["decided_at"],
            published=False,
            **decision,
        )
    )


def overdue(limit: int = 100) -> list[CallRecord]:
    """Return the calls that have waited for approval longer than allowed."""
    rows = _waiting().filter(approval_until__lte=clock.now()).order_by("approval_until")
    return [call_record.record(row) for row in rows[:limit]]


def orphaned(limit: int = 100) -> list[CallRecord]:
    """Return waiting calls whose sessions have ended, so that their answers cannot be delivered."""
    over = Session.objects.filter(pk=OuterRef("session_id"), ended_at__isnull=False)
    return [call_record.record(row) for row in _waiting().filter(Exists(over))[:limit]]


def to_remind(after: float, limit: int = 200) -> Iterator[Waiting]:
    """Yield the calls whose clients were last reminded at least ``after`` seconds ago.

    If several processes run this at once, each call is yielded in only one of them.
    """
    now = clock.now()
    silent = _waiting().filter(reminded_at__lte=clock.now(-after))
    shown = silent.annotate(**clock.read_at()).defer("arguments", "answer")
    for row in shown.order_by("reminded_at")[:limit]:
        if silent.filter(pk=row.pk).update(reminded_at=now):
            yield Waiting.of(row)
