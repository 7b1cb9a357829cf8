"""Notifications about the catalogue, for every transport."""

from __future__ import annotations

import orjson

from mcp_app.catalogue.serving.current_snapshot import current
from mcp_app.protocol.features.subscriptions import LIST_CHANGED, RESOURCE_UPDATED
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.message_log import MessageLog
from mcp_app.sessions.session import Session
from mcp_app.streams.gateway import Streams


async def due(streams: Streams, session: Session) -> tuple[list[bytes], int]:
    """Notifications of what changed since the revision last announced to this client, and the new revision.

    Of each list one notice covers many changes, and so it is with the content of each resource that the
    session is subscribed to (RES-08). Nothing is due before the client has confirmed that it is ready
    (LIFE-03). Raises StreamsUnavailable if its subscriptions cannot be read.
    """
    catalogue = current()
    if session.announced >= catalogue.revision or not session.initialized:
        return [], session.announced
    changed = [kind for kind, revision in catalogue.revisions.items() if revision > session.announced]
    notices = [jsonrpc.encode_notification(LIST_CHANGED[kind]) for kind in changed]
    if uris := catalogue.updated_since(session.announced):
        subscribed = await streams.sessions.subscribed(session.id, uris)
        notices += [jsonrpc.encode_notification(RESOURCE_UPDATED, {"uri": uri}) for uri in subscribed]
    return notices, catalogue.revision


def note(log: MessageLog, session: Session, messages: list[bytes]) -> None:
    """Record what was announced."""
    for message in messages:
        method = orjson.loads(message)["method"]
        log.single(session.id, session.principal_key, "out", "notification", message, method)
