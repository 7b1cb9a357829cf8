"""Has the message log show the answers of calls that end without an attempt, which would note its own.

Such a call was refused or cancelled while it waited, was approved too late, or lost its worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcp_app import conf
from mcp_app.catalogue.serving.current_snapshot import current
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import restored
from mcp_app.sessions.message_log import MessageLog
from mcp_app.sessions.session import MADE_IN
from mcp_app.streams.gateway import Streams

# In the message log a refusal is no error of the tool: that would be a new error for people to look at.
CANCELLED = "cancelled"

Ended = tuple[CallRecord, bytes, str]


def note_ended(log: MessageLog, calls: Iterable[Ended]) -> None:
    """Each request with its answer and outcome. It has no duration: nothing ran, or nobody knows how long."""
    if not log.enabled:
        return
    for call, answer, outcome in calls:
        asked = {"name": call.tool, "arguments": call.arguments}
        request = jsonrpc.encode_request(call.request_id, "tools/call", asked)
        facts = ("tools/call", str(call.request_id), call.tool)
        log.exchange(_record_of(call), call.principal, request, answer, None, outcome, facts)


async def hand_on_ended(streams: Streams, calls: Iterable[Ended]) -> None:
    """As ``note_ended``, where no message log is kept: in pages, commands and periodic work."""
    log = MessageLog(streams, conf.get())
    # The log of a web process numbers its lines, under a name of its own.
    log.process += ":ended"
    log.keep_secret(current().secret_names)
    note_ended(log, calls)
    await log.flush()


def _record_of(call: CallRecord) -> str:
    """The session, or the record of a client without one, that the request belongs to."""
    if call.is_core_task:
        return call.session_fields[MADE_IN]
    return restored(call.session_id, call.session_fields).record_id
