"""What a client is told of the catalogue, whatever transport it listens on."""

from __future__ import annotations

from mcp_app.catalogue.current import current
from mcp_app.protocol import jsonrpc
from mcp_app.sessions.session import Session

KINDS = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
}


def due(session: Session) -> tuple[list[bytes], int]:
    """Notices of lists that changed since this client was last told, and the revision they tell of.

    One notice covers many changes. Nothing is due before the client has confirmed that it is ready (LIFE-03).
    """
    catalogue = current()
    if session.announced >= catalogue.revision or not session.initialized:
        return [], session.announced
    changed = [kind for kind, revision in catalogue.revisions.items() if revision > session.announced]
    return [jsonrpc.encode_notification(KINDS[kind]) for kind in changed], catalogue.revision
