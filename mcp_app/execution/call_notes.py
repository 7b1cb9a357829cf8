"""What the message log learns of a call before its answer: that it takes its time, and what it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_app.sessions.message_log import MessageLog

if TYPE_CHECKING:
    from mcp_app.execution.call import Call

PROGRESS = "notifications/progress"
# Of progress only now and then a line is logged: it would be most of the log.
PROGRESS_SECONDS = 1.0


def note_running(call: Call, log: MessageLog, grace: float = 0.0) -> None:
    """A request that is not over after ``grace``: people who watch see it before it is answered."""
    if grace:
        call.loop.call_later(grace, note_running, call, log)
    elif not call.outcome:
        _note(call, log, "running", "in", call.method, call.payload)


def note_sent(call: Call, log: MessageLog, method: str, encoded: bytes) -> None:
    """A notification that the call sent to its client."""
    if method == PROGRESS:
        now = call.loop.time()
        if now - call.noted_at < PROGRESS_SECONDS:
            return
        call.noted_at = now
    _note(call, log, "notification", "out", method, encoded)


def _note(call: Call, log: MessageLog, kind: str, direction: str, method: str, payload: bytes) -> None:
    session = call.session.record_id
    log.single(
        session, call.principal.key, direction, kind, payload, method, str(call.request_id), call.target
    )
