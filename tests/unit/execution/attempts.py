"""Stored calls and their running attempts, without the worker around them."""

from __future__ import annotations

from typing import Any

from mcp_app.auth.principal import LOOPBACK
from mcp_app.catalogue.snapshots.snapshot import EMPTY
from mcp_app.conf import Settings
from mcp_app.execution.background.service import Background
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.execution.worker.attempt_reply import AttemptReply
from mcp_app.message_log.log import MessageLog
from mcp_app.observability.call_telemetry import CallTelemetry
from mcp_app.observability.correlation import Correlation
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.streams.base import Position
from mcp_app.streams.gateway import Streams
from tests.samples.approved_work import bound
from tests.views import seen

SESSION = "a-session-of-these-tests"
STREAM = "call-1"
SETTINGS = Settings(redis_url="redis://nowhere.invalid")
FIELDS = stored_fields(
    version="2025-11-25", principal_key=LOOPBACK.key, client_info={}, capabilities={}, announced=0
) | {"initialized": "1"}


def new_call(**changed: Any) -> NewCall:
    values: dict[str, Any] = {
        "session_id": SESSION,
        "request_id": 1,
        "principal": LOOPBACK.key,
        "user_id": None,
        "api_key_id": None,
        "tool": "work",
        "arguments": {},
        "meta": {"progressToken": "p"},
        "session_fields": FIELDS,
        "stream": STREAM,
        "timeout": 60.0,
        "max_attempts": 2,
    }
    values |= changed
    if changed.get("approval_minutes"):
        values |= bound(values["arguments"]) | changed
    return NewCall(**values)


async def stream_of(background: Background, new: NewCall) -> tuple[str, Position]:
    """Return the stream of an accepted call and the position where its client starts to follow."""
    call, start = await background.accept(new)
    return call.stream, start


def claimed(**changed: Any) -> CallRecord:
    """Return a call whose first attempt is running."""
    stored, _ = records.accept(new_call(**changed))
    call = records.claim(stored.id, "worker")
    assert call is not None
    return call


def call_of(record: CallRecord, streams: Streams, reply: AttemptReply) -> RunningCall:
    """Return the running call of an attempt."""
    log = MessageLog(streams, SETTINGS)
    return RunningCall(
        request_id=record.request_id,
        method="tools/call",
        target=record.tool,
        session=LiveSession(record.session_id, record.session_fields),
        principal=LOOPBACK,
        catalogue=seen(EMPTY, LOOPBACK.permissions),
        reply=reply,
        requests=ClientRequests(streams, log, 5.0),
        settings=SETTINGS,
        progress_token="p",
        timeout=record.timeout,
        payload=b"{}",
        meta=record.meta,
        on_timeout=lambda: error_result("too slow"),
        telemetry=CallTelemetry(Correlation(record.session_id)),
    )
