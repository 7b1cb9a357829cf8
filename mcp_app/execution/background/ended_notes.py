"""Has the message log show the answers of calls that end without a worker, which would note its own.

Such a call was refused, cancelled or not approved in time while it waited, or its worker was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from django.db import Error as DatabaseFault

from mcp_app import conf
from mcp_app.catalogue.snapshots.current_snapshot import refresh
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.stored_answers import request_of, session_of
from mcp_app.message_log.log import MessageLog
from mcp_app.streams.gateway import Streams

# The outcome of what was refused, too: as an error of the tool it would be a new error for people to look at.
CANCELLED = "cancelled"

# A call, its answer and its outcome.
Ended = tuple[CallRecord, bytes, str]

log = logging.getLogger("mcp.background")


def note_ended(message_log: MessageLog, calls: Iterable[Ended]) -> None:
    """Note each request with its answer. It has no duration: nothing ran, or nobody knows how long."""
    if not message_log.enabled:
        return
    for call, answer, outcome in calls:
        facts = ("tools/call", str(call.request_id), call.tool)
        session = session_of(call).record_id
        message_log.exchange(session, call.principal, request_of(call), answer, None, outcome, facts)


async def hand_on_ended(streams: Streams, calls: Iterable[Ended]) -> None:
    """As ``note_ended``, where no message log is kept: in pages, commands and periodic work."""
    try:
        # A command has no catalogue yet, and it is what says which arguments are secret.
        secret_names = (await refresh()).secret_names
    except DatabaseFault as error:
        log.warning("The message log does not show how some calls ended: %s", error)
        return
    message_log = MessageLog(streams, conf.get())
    # The log of a web process numbers its lines, under a name of its own.
    message_log.process += ":ended"
    message_log.keep_secret(secret_names)
    note_ended(message_log, calls)
    await message_log.flush()
