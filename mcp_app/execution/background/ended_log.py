"""Message log entries for approved calls, and for calls that ended or were refused without a worker.

An ended call was refused, cancelled or not approved in time while it waited, or its worker was lost. The
dispatcher logs calls of MCP clients that the gate refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from django.db import Error as DatabaseFault

from mcp_app import conf
from mcp_app.catalogue.snapshots.current_snapshot import refresh
from mcp_app.execution.calls.results import error_result
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.stored_answers import request_of, session_of
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.refusals import ANSWERS, Code
from mcp_app.streams.gateway import Streams

CANCELLED = "cancelled"

# Refused before the tool was looked up: the name may be invented.
_WITHOUT_TOOL = frozenset({Code.UNKNOWN_TOOL, Code.KEY_REUSED})

# A call, its answer and its outcome, for the message log.
Ended = tuple[CallRecord, bytes, str]

log = logging.getLogger("mcp.background")


class RefusedCall(NamedTuple):
    """A call from an operator's page or the API that the gate refused."""

    session_id: str
    principal: str
    request_id: str | int
    tool: str
    arguments: dict[str, Any]


def log_exchanges(message_log: MessageLog, calls: Iterable[Ended]) -> None:
    """Log each request with its answer.

    The duration is None, because no code ran or its duration is unknown.
    """
    if not message_log.enabled:
        return
    for call, answer, outcome in calls:
        facts = ("tools/call", str(call.request_id), call.tool)
        session = session_of(call).record_id
        message_log.exchange(session, call.principal, request_of(call), answer, None, outcome, facts)


async def log_ended(streams: Streams, calls: Iterable[Ended]) -> None:
    """Log ended calls in code without its own message log: pages, commands, periodic tasks."""
    await _log_and_close(streams, lambda message_log: log_exchanges(message_log, calls))


async def log_queued(streams: Streams, call: CallRecord) -> None:
    """Log that an approved call waits for a worker. The mark replaces the one that shows it as waiting."""
    if not conf.get().message_log:
        return
    facts = ("tools/call", str(call.request_id), call.tool)
    line = (session_of(call).record_id, call.principal, "in", "queued", request_of(call), *facts)
    await _log_and_close(streams, lambda message_log: message_log.single(*line))


async def log_refused(streams: Streams, call: RefusedCall, refusal: McpError) -> None:
    """Log a call from a page or the API that the gate refused, in the form used for calls of MCP clients."""
    code = Code(refusal.refusal)
    outcome, answer = "error", jsonrpc.encode_error(refusal, call.request_id)
    if ANSWERS[code].as_result:
        result = error_result(refusal.message, code)
        outcome, answer = "tool_error", jsonrpc.encode_result(call.request_id, result)
    request = jsonrpc.encode_request(
        call.request_id, "tools/call", {"name": call.tool, "arguments": call.arguments}
    )
    facts = ("tools/call", str(call.request_id), "" if code in _WITHOUT_TOOL else call.tool)
    line = (call.session_id, call.principal, request, answer, None, outcome, facts, code.value)
    await _log_and_close(streams, lambda message_log: message_log.exchange(*line))


async def _log_and_close(streams: Streams, note: Callable[[MessageLog], None]) -> None:
    try:
        # The catalogue names the secret arguments, and a command has not loaded it yet.
        secret_names = (await refresh()).secret_names
    except DatabaseFault as error:
        log.warning("The outcomes of some calls were not written to the message log: %s", error)
        return
    message_log = MessageLog(streams, conf.get())
    # The web process numbers its own log entries by this name, so this log needs another one.
    message_log.process += ":ended"
    message_log.keep_secret(secret_names)
    note(message_log)
    await message_log.flush()
