"""Message log entries about a call: that it is running, its notifications, and its answer."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mcp_app.auth.principal import Principal
from mcp_app.message_log.log import MessageLog
from mcp_app.observability.call_telemetry import CallTelemetry
from mcp_app.sessions.negotiated import Negotiated

PROGRESS = "notifications/progress"
# Minimum seconds between two logged progress notifications. Otherwise progress would fill the log.
PROGRESS_SECONDS = 1.0


class Logged(Protocol):
    """The attributes of a call that its log entries need."""

    loop: asyncio.AbstractEventLoop
    session: Negotiated
    principal: Principal
    request_id: str | int
    method: str
    target: str
    payload: bytes
    outcome: str
    refusal: str
    noted_at: float
    telemetry: CallTelemetry


def log_running(call: Logged, log: MessageLog, grace: float = 0.0) -> None:
    """Log a request as running, for the console, unless it finishes within ``grace`` seconds."""
    if grace:
        call.loop.call_later(grace, log_running, call, log)
    elif not call.outcome:
        _log(call, log, "running", "in", call.method, call.payload)


def log_notification(call: Logged, log: MessageLog, method: str, encoded: bytes) -> None:
    """Log a notification sent by the call. Progress is logged at most once per ``PROGRESS_SECONDS``."""
    if method == PROGRESS:
        now = call.loop.time()
        if now - call.noted_at < PROGRESS_SECONDS:
            return
        call.noted_at = now
    _log(call, log, "notification", "out", method, encoded)


def log_exchange(call: Logged, log: MessageLog, encoded: bytes, seconds: float) -> None:
    """Log the call's request with its answer."""
    if not log.enabled:
        return
    facts = (call.method, str(call.request_id), call.target)
    session, principal = call.session.record_id, call.principal.key
    sent = tuple([each.copy() for each in call.telemetry.correlation.sent or ()])
    log.exchange(session, principal, call.payload, encoded, seconds, call.outcome, facts, call.refusal, sent)


def _log(call: Logged, log: MessageLog, kind: str, direction: str, method: str, payload: bytes) -> None:
    session = call.session.record_id
    log.single(
        session, call.principal.key, direction, kind, payload, method, str(call.request_id), call.target
    )
