"""Notifications about the catalogue, for every transport."""

from __future__ import annotations

from typing import Final, NamedTuple

from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.message_log.log import MessageLog
from mcp_app.protocol.features.subscriptions import LIST_CHANGED, RESOURCE_UPDATED
from mcp_app.protocol.http import sse
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.gateway import Streams

LIST_NOTICES: Final = {kind: jsonrpc.encode_notification(method) for kind, method in LIST_CHANGED.items()}
# A message to a client and its method.
Notice = tuple[bytes, str]


class Announcement(NamedTuple):
    """The notifications for all clients last notified at the same revision, encoded once.

    ``asks`` is True if a client may need more notifications, which ``due`` finds with a query to Redis.
    """

    revision: int
    notices: list[Notice]
    events: bytes
    asks: bool


NOTHING: Final = Announcement(0, [], b"", asks=False)


def announcement(session: LiveSession, view: CatalogueView) -> Announcement:
    """Return the notifications that are due to a client with this view, without a query to Redis."""
    catalogue, announced = view.snapshot, session.announced
    if announced >= catalogue.revision or not session.initialized:
        return NOTHING
    key = "announcement", announced
    found: Announcement | None = catalogue.prepared.get(key)
    if found is None:
        notices = _changed_lists(catalogue, announced)
        events = b"".join([sse.encode_event(message) for message, _ in notices])
        asks = bool(catalogue.updated_since(announced))
        found = catalogue.prepared[key] = Announcement(catalogue.revision, notices, events, asks)
    return found


async def due(streams: Streams, session: LiveSession, view: CatalogueView) -> tuple[list[Notice], int]:
    """Return the notifications about changes since the last announced revision, and the new revision.

    All changes of a list or of a subscribed resource need only one notification (RES-08). Nothing is due
    before the client has initialized (LIFE-03). Raise StreamsUnavailable if the client's subscriptions cannot
    be read.
    """
    catalogue = view.snapshot
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


def log_notices(log: MessageLog, session: LiveSession, notices: list[Notice]) -> None:
    """Write the notifications to the message log."""
    for message, method in notices:
        log.single(session.id, session.principal_key, "out", "notification", message, method)
