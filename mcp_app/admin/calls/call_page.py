"""Data for the page of a call, both for its first display and for its live updates.

All texts are redacted, and hidden characters in them are marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from mcp_app.admin.calls.approval import TONES as DECISION_TONES
from mcp_app.admin.calls.approval import time_left, waited_for_approval
from mcp_app.admin.calls.outgoing import SentRequest, sent_requests
from mcp_app.admin.markup import span
from mcp_app.admin.timeline import LONGEST_SHOWN, SHOWN_CHARACTERS, Failure, Pane, pane
from mcp_app.database import clock as database_clock
from mcp_app.execution.background.reaper import PUBLISH_SECONDS
from mcp_app.execution.call_log import CallLogPage, Progress, log_page, redactor, write_position
from mcp_app.execution.stored.call_record import record
from mcp_app.execution.stored.pending_approvals import WAITING_WORDS
from mcp_app.execution.stored.records import LONGEST_LEASE
from mcp_app.execution.stored.stored_answers import session_of
from mcp_app.interface.results import result_of
from mcp_app.interface.text import marked
from mcp_app.message_log.pages import between
from mcp_app.models import AuditEvent, Call, Message
from mcp_app.observability.incidents import number_in
from mcp_app.protocol.call_state import State, is_terminal, shown_state
from mcp_app.protocol.versions import V2025_11_25, is_modern
from mcp_app.sessions.session import MADE_IN
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
TOOL_ERROR = "tool_error"
# The decisions with which a call ends before it could run.
NOT_RUN = (Call.Decision.REFUSED, Call.Decision.EXPIRED)
# A stored answer is redacted before it is truncated, because a truncated secret might not be recognized.
WHOLE = 1 << 30
AROUND = timedelta(minutes=1)  # The clocks of two machines may differ slightly.
# Messages with the request id of a call that are compared with its end.
MOST_LOGGED = 20
AWAY = "Redis is unavailable: the output of the tool cannot be shown."


@dataclass(frozen=True, slots=True)
class CallContent:
    """The arguments and the answer of a call for display. Each is None if it is empty."""

    arguments: Pane | None
    answer: Pane | None


def content(call: Call, *, whole: bool) -> CallContent:
    """Return the redacted arguments and answer of a call. Long ones are truncated unless ``whole``."""
    clean = redactor()
    limit = LONGEST_SHOWN if whole else SHOWN_CHARACTERS
    return CallContent(
        pane(clean.message(call.arguments.encode("utf-8", "replace"), WHOLE), limit),
        pane(clean.message(call.answer.encode("utf-8", "replace"), WHOLE), limit),
    )


def failure_of(call: Call) -> Failure | None:
    """Return the unexpected exception because of which a call failed, from the message log, or None."""
    number = number_in(call.answer)
    if not number:
        return None
    stored = Message.objects.filter(incident=number, target=call.tool).values_list("exception", flat=True)
    return Failure.of(call.answer, stored.first())


def outgoing_of(call: Call) -> list[SentRequest]:
    """Return the requests to other servers that a finished call made, from the message log."""
    finished = call.finished_at
    if finished is None:
        return []
    # Clients use a request id again, so the message is the one that was logged when the call finished.
    logged = Message.objects.filter(
        session_id=logged_in(call),
        request_id=request_id_of(call)[:120],
        principal=call.principal,
        target=call.tool,
        at__range=(finished - AROUND, finished + AROUND),
        outgoing__isnull=False,
    )
    logged = between(logged, finished - AROUND, finished + AROUND)
    found = logged.order_by("-pk").values_list("pk", "at")[:MOST_LOGGED]
    nearest = min(found, key=lambda each: abs(each[1] - finished), default=None)
    return [] if nearest is None else sent_requests(Message.objects.get(pk=nearest[0]))


def logged_in(call: Call) -> str:
    """Return the id of the session under which the log has the messages of a call."""
    fields = call.session_fields
    if MADE_IN not in fields and is_modern(fields.get("version", V2025_11_25)):
        return session_of(record(call)).record_id  # A call of an earlier version of this server.
    return str(fields.get(MADE_IN, call.session_id))


def waited(call: Call) -> timedelta | None:
    """Return how long the call waited in the queue before its newest start.

    Returns None if the call was never queued or was cancelled in the queue.
    """
    queued_at = call.accepted_at if call.approval_until is None else call.decided_at
    if call.finished_at is not None and call.started_at is None:
        return None
    return None if queued_at is None else (call.started_at or database_clock.utcnow()) - queued_at


def lasted(call: Call) -> timedelta | None:
    """Return how long the newest attempt has run, or None if no attempt has started."""
    if call.started_at is None:
        return None
    end: datetime = call.finished_at or database_clock.utcnow()
    return end - call.started_at


def state_of(call: Call) -> tuple[str, str]:
    """Return the one verdict that pages show for a call, and its tone.

    For a refused or expired call, it is the decision. A completed call whose result is an error failed.
    """
    if was_not_run(call):
        return str(call.decision), DECISION_TONES[call.decision]
    failed = call.state == State.COMPLETED and call.outcome == TOOL_ERROR
    state = State.FAILED if failed else call.state
    return shown_state(state), TONES.get(state, "plain")


def detail_of(call: Call) -> str:
    """Return the outcome in words if it adds information to the verdict, or ""."""
    result = result_of(call.outcome)
    if result is None or was_not_run(call):
        return ""
    return result.detail or ("" if result.word == state_of(call)[0] else result.word)


def was_not_run(call: Call) -> bool:
    """Return True if the call was refused or expired before it could run."""
    return call.decision in NOT_RUN


def stopped_by(call: Call) -> str:
    """Return the name of the operator who cancelled the call, from the audit trail, or ""."""
    if call.cancel_requested_at is None:
        return ""
    # The time is part of the filter because it is indexed. The range is needed because the call has the time
    # of the database clock and the audit event that of a process clock.
    then = (call.cancel_requested_at - AROUND, call.cancel_requested_at + AROUND)
    stops = AuditEvent.objects.filter(action="call.stop", object_kind="call", object_key=str(call.pk))
    people = stops.filter(at__range=then).exclude(actor=None).order_by("pk")
    return people.values_list("actor_name", flat=True).first() or ""


def is_unsent(call: Call) -> bool:
    """Return True if the call's answer is overdue.

    The answer should be published to the client's stream within ``PUBLISH_SECONDS`` after the call finished.
    """
    if call.finished_at is None or call.published:
        return False
    return database_clock.utcnow() - call.finished_at > timedelta(seconds=PUBLISH_SECONDS)


def lease_text(call: Call) -> str:
    """Return the remaining time of the lease on the current attempt, or "–" if no worker has a lease."""
    left = database_clock.lease_remaining(call.lease_until)
    if left is None:
        return "–"
    return f"{span(left)} left" if timedelta() < left <= timedelta(seconds=LONGEST_LEASE) else "expired"


def live(call: Call, after: Position | None = None) -> dict[str, Any]:
    """Return the live data of a call. ``after`` is the position of the last log line that the page shows."""
    try:
        log, note = log_page(call.session_id, call.stream, after), ""
    except StreamsUnavailable:
        log, note = CallLogPage(position=after), AWAY
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
        "worker": marked(call.worker) or "–",
        "lease": lease_text(call),
        "progress": _progress(call, log.progress),
        "lines": [
            {"level": marked(line.level), "text": marked(line.text)}
            for line in log.lines
            # These lines are not output of the tool, and the progress above shows the newest of them.
            if not line.text.startswith(WAITING_WORDS)
        ],
        "after": write_position(log.position),
        "note": note,
    }


def attempts(call: Call) -> str:
    """Return text such as ``2 of 3``."""
    return f"{call.attempt} of {call.max_attempts}"


def _progress(call: Call, newest: Progress | None) -> dict[str, Any] | None:
    if newest is None:
        if call.progress is None:
            return None
        newest = Progress(call.progress, call.total, redactor().text(call.message))
    return {"value": newest.value, "total": newest.total, "text": marked(newest.text)}


def request_id_of(call: Call) -> str:
    """Return the call's JSON-RPC id in the form in which the message log stores it."""
    return str(orjson.loads(call.request_id))
