"""Message log entries for calls that end without a worker.

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

# Also used for refused calls: as a tool error they would appear as a new error group.
CANCELLED = "cancelled"

# A call, its answer and its outcome.
Ended = tuple[CallRecord, bytes, str]

log = logging.getLogger("mcp.background")


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
    try:
        # A command has no catalogue yet, which names the secret arguments.
        secret_names = (await refresh()).secret_names
    except DatabaseFault as error:
        log.warning("The message log does not show how some calls ended: %s", error)
        return
    message_log = MessageLog(streams, conf.get())
    # The web process numbers its own lines, so this log needs another name.
    message_log.process += ":ended"
    message_log.keep_secret(secret_names)
    note_ended(message_log, calls)
    await message_log.flush()
