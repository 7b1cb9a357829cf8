"""Notifications about the catalogue, for every transport."""

from __future__ import annotations

from typing import Final

from mcp_app.catalogue.serving.current_snapshot import current
from mcp_app.catalogue.serving.snapshot import Catalogue
from mcp_app.protocol.features.subscriptions import LIST_CHANGED, RESOURCE_UPDATED
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.message_log import MessageLog
from mcp_app.sessions.session import Session
from mcp_app.streams.gateway import Streams

LIST_NOTICES: Final = {kind: jsonrpc.encode_notification(method) for kind, method in LIST_CHANGED.items()}
# A message to a client and its method.
Notice = tuple[bytes, str]


def changed_lists(session: Session) -> list[Notice] | None:
    """Notifications of the lists that changed since the revision last announced to this client.

    None if there may be more to announce, for which Redis must be asked: ``due`` says what.
    """
    catalogue, announced = current(), session.announced
    if announced >= catalogue.revision or not session.initialized:
        return []
    if catalogue.updated_since(announced):
        return None
    return _changed_lists(catalogue, announced)


async def due(streams: Streams, session: Session) -> tuple[list[Notice], int]:
    """Notifications of what changed since the revision last announced to this client, and the new revision.

    Of each list one notice covers many changes, and so it is with the content of each resource that the
    session is subscribed to (RES-08). Nothing is due before the client has confirmed that it is ready
    (LIFE-03). Raises StreamsUnavailable if its subscriptions cannot be read.
    """
    catalogue = current()
    if session.announced >= catalogue.revision or not session.initialized:
        return [], session.announced
    notices = _changed_lists(catalogue, session.announced)
    if uris := catalogue.updated_since(session.announced):
        subscribed = await streams.sessions.subscribed(session.id, uris)
        notices += [
            (jsonrpc.encode_notification(RESOURCE_UPDATED, {"uri": uri}), RESOURCE_UPDATED)
            for uri in subscribed
        ]
    return notices, catalogue.revision


def _changed_lists(catalogue: Catalogue, announced: int) -> list[Notice]:
    return [
        (LIST_NOTICES[kind], LIST_CHANGED[kind])
        for kind, revision in catalogue.revisions.items()
        if revision > announced
    ]


def note(log: MessageLog, session: Session, notices: list[Notice]) -> None:
    """Record what was announced."""
    for message, method in notices:
        log.single(session.id, session.principal_key, "out", "notification", message, method)
