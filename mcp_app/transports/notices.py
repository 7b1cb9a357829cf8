"""What a client is told of the catalogue, whatever transport it listens on."""

from __future__ import annotations

import orjson

from mcp_app.catalogue.current import current
from mcp_app.protocol import jsonrpc
from mcp_app.protocol.subscriptions import LIST_CHANGED
from mcp_app.sessions.message_log import MessageLog
from mcp_app.sessions.session import Session


def due(session: Session) -> tuple[list[bytes], int]:
    """Notices of lists that changed since this client was last told, and the revision they tell of.

    One notice covers many changes. Nothing is due before the client has confirmed that it is ready (LIFE-03).
    """
    catalogue = current()
    if session.announced >= catalogue.revision or not session.initialized:
        return [], session.announced
    changed = [kind for kind, revision in catalogue.revisions.items() if revision > session.announced]
    return [jsonrpc.encode_notification(LIST_CHANGED[kind]) for kind in changed], catalogue.revision


def note(log: MessageLog, session: Session, messages: list[bytes]) -> None:
    """Write down what was told."""
    for message in messages:
        method = orjson.loads(message)["method"]
        log.single(session.id, session.principal_key, "out", "notification", message, method)
