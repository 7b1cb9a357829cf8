"""Owns what the page of one call shows, at first and while the call runs; all text is redacted and marked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from mcp_app.admin.calls.approval import TONES as DECISION_TONES
from mcp_app.admin.calls.approval import time_left, waited_for_approval
from mcp_app.admin.markup import span
from mcp_app.admin.timeline import LONGEST_SHOWN, SHOWN_CHARACTERS, Pane, pane
from mcp_app.database import clock as database_clock
from mcp_app.execution.background.reaper import PUBLISH_SECONDS
from mcp_app.execution.call_log import CallLogPage, Progress, redactor, said, write_position
from mcp_app.execution.stored.records import LONGEST_LEASE
from mcp_app.interface.text import marked
from mcp_app.models import AuditEvent, Call
from mcp_app.protocol.call_state import State, is_terminal, shown_state
from mcp_app.streams.base import Position, StreamsUnavailable

TONES = {
    "approval_needed": "warn",
    "accepted": "plain",
    "running": "info",
    "input_required": "warn",
    "completed": "good",
    "failed": "bad",
    "cancelled": "warn",
}
# A stored answer is redacted whole before it is cut, so that a secret cannot stand half behind the cut.
WHOLE = 1 << 30
AROUND = timedelta(minutes=1)  # clocks of two machines differ a little
AWAY = "Redis is away: what the call says is not shown now."


@dataclass(frozen=True, slots=True)
class CallContent:
    """The arguments and the answer, ready to be shown; ``cut`` when one of them is not whole."""

    arguments: Pane | None
    answer: Pane | None


def content(call: Call, *, whole: bool) -> CallContent:
    """What was asked and answered, without secrets."""
    clean = redactor()
    limit = LONGEST_SHOWN if whole else SHOWN_CHARACTERS
    return CallContent(
        pane(clean.message(call.arguments.encode("utf-8", "replace"), WHOLE), limit),
        pane(clean.message(call.answer.encode("utf-8", "replace"), WHOLE), limit),
    )


def waited(call: Call) -> timedelta | None:
    """How long it has been in the queue before its (newest) start; None when it was not, or ended there."""
    queued_at = call.accepted_at if call.approval_until is None else call.decided_at
    if call.finished_at is not None and call.started_at is None:
        return None
    return None if queued_at is None else (call.started_at or database_clock.utcnow()) - queued_at


def lasted(call: Call) -> timedelta | None:
    """How long its newest attempt has run."""
    if call.started_at is None:
        return None
    end: datetime = call.finished_at or database_clock.utcnow()
    return end - call.started_at


def state_of(call: Call) -> tuple[str, str]:
    """Its state in one word, and the tone of that; what was decided, for a call that never began."""
    if call.decision in (Call.Decision.REFUSED, Call.Decision.EXPIRED):
        return str(call.decision), DECISION_TONES[call.decision]
    return shown_state(call.state), TONES.get(call.state, "plain")


def outcome_of(call: Call) -> str:
    """How it ended."""
    return call.outcome.replace("_", " ")


def says_more(call: Call) -> bool:
    """Whether the outcome says more than the state."""
    began = call.decision not in (Call.Decision.REFUSED, Call.Decision.EXPIRED)
    return began and outcome_of(call) not in ("", "ok", shown_state(call.state))


def stopped_by(call: Call) -> str:
    """The operator who asked it to stop, as the audit trail knows; empty when none did."""
    if call.cancel_requested_at is None:
        return ""
    # By its time, which has an index; the row has the database's clock, the trail that of a process.
    then = (call.cancel_requested_at - AROUND, call.cancel_requested_at + AROUND)
    stops = AuditEvent.objects.filter(action="call.stop", object_kind="call", object_key=str(call.pk))
    people = stops.filter(at__range=then).exclude(actor=None).order_by("pk")
    return people.values_list("actor_name", flat=True).first() or ""


def is_unsent(call: Call) -> bool:
    """Whether its answer has not reached its client's stream; that it has is noted a moment later."""
    if call.finished_at is None or call.published:
        return False
    return database_clock.utcnow() - call.finished_at > timedelta(seconds=PUBLISH_SECONDS)


def lease_words(call: Call) -> str:
    """How long the attempt's worker may still be silent; nothing for a call that no worker runs."""
    left = database_clock.lease_left(call.lease_until)
    if left is None:
        return "-"
    return f"{span(left)} left" if timedelta() < left <= timedelta(seconds=LONGEST_LEASE) else "run out"


def live(call: Call, after: Position | None = None) -> dict[str, Any]:
    """What changes while a call runs, as JSON; ``after`` is where the lines go on."""
    try:
        heard, note = said(call.session_id, call.stream, after), ""
    except StreamsUnavailable:
        heard, note = CallLogPage(position=after), AWAY
    state, tone = state_of(call)
    return {
        "state": state,
        "tone": tone,
        "over": is_terminal(call.state),
        "waits": call.state == State.APPROVAL_NEEDED,
        "asked": span(waited_for_approval(call)),
        "left": span(time_left(call)),
        "stopping": call.cancel_requested_at is not None and not is_terminal(call.state),
        "attempts": attempts(call),
        "wait": span(waited(call)),
        "duration": span(lasted(call)),
        "worker": marked(call.worker) or "-",
        "lease": lease_words(call),
        "progress": _progress(call, heard.progress),
        "lines": [{"level": marked(line.level), "text": marked(line.text)} for line in heard.lines],
        "after": write_position(heard.position),
        "note": note,
    }


def attempts(call: Call) -> str:
    """``2 of 3``."""
    return f"{call.attempt} of {call.max_attempts}"


def _progress(call: Call, newest: Progress | None) -> dict[str, Any] | None:
    if newest is None:
        if call.progress is None:
            return None
        newest = Progress(call.progress, call.total, redactor().text(call.message))
    return {"value": newest.value, "total": newest.total, "text": marked(newest.text)}


def request_id_of(call: Call) -> str:
    """The JSON-RPC id as the message log writes it."""
    return str(orjson.loads(call.request_id))
