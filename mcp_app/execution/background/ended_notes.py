"""Message log entries for calls that end without a worker, or never start.

Such a call was refused, cancelled or not approved in time while it waited, or its worker was lost. Refusals
of the gate to MCP clients are logged by the dispatcher.
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

# Also used for refused calls: as a tool error they would appear as a new error group.
CANCELLED = "cancelled"

# A call, its answer and its outcome.
Ended = tuple[CallRecord, bytes, str]

log = logging.getLogger("mcp.background")


class RefusedCall(NamedTuple):
    """A call that the API or an operator's page was refused."""

    session_id: str
    principal: str
    request_id: str | int
    tool: str
    arguments: dict[str, Any]


def note_ended(message_log: MessageLog, calls: Iterable[Ended]) -> None:
    """Log each request with its answer. The duration is None: nothing ran, or the duration is unknown."""
    if not message_log.enabled:
        return
    for call, answer, outcome in calls:
        facts = ("tools/call", str(call.request_id), call.tool)
        session = session_of(call).record_id
        message_log.exchange(session, call.principal, request_of(call), answer, None, outcome, facts)


async def hand_on_ended(streams: Streams, calls: Iterable[Ended]) -> None:
    """Log ended calls where there is no message log: in pages, commands and periodic tasks."""
    await _hand_on(streams, lambda message_log: note_ended(message_log, calls))


async def hand_on_refused(streams: Streams, call: RefusedCall, refusal: McpError) -> None:
    """Log a call that the gate refused to a page or the API, as one that it refused to an MCP client."""
    code = Code(refusal.refusal)
    outcome, answer = "error", jsonrpc.encode_error(refusal, call.request_id)
    if ANSWERS[code].as_result:
        result = error_result(refusal.message, code)
        outcome, answer = "tool_error", jsonrpc.encode_result(call.request_id, result)
    request = jsonrpc.encode_request(
        call.request_id, "tools/call", {"name": call.tool, "arguments": call.arguments}
    )
    facts = ("tools/call", str(call.request_id), "" if code == Code.UNKNOWN_TOOL else call.tool)
    line = (call.session_id, call.principal, request, answer, None, outcome, facts, code.value)
    await _hand_on(streams, lambda message_log: message_log.exchange(*line))


async def _hand_on(streams: Streams, note: Callable[[MessageLog], None]) -> None:
    try:
        # A command has no catalogue yet, which names the secret arguments.
        secret_names = (await refresh()).secret_names
    except DatabaseFault as error:
        log.warning("The outcomes of some calls were not written to the message log: %s", error)
        return
    message_log = MessageLog(streams, conf.get())
    # The web process numbers its own lines, so this log needs another name.
    message_log.process += ":ended"
    message_log.keep_secret(secret_names)
    note(message_log)
    await message_log.flush()
