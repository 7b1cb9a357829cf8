"""Tables of the lists that OAuth clients get, with their tokens."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest

from mcp_app.admin.callers.tokens import TokenTable, called_tools, of_holder, rows_of
from mcp_app.auth.own_addresses import path_of
from mcp_app.catalogue.access import Holder, limited_holder, may_ask
from mcp_app.catalogue.toolsets.meter import Meter
from mcp_app.interface.text import marked
from mcp_app.oauth.connections import principal_key
from mcp_app.oauth.models import Client, Connection

# The users of a client whose lists its page shows: those who used it last.
MOST_USERS: Final = 10


def of_connection(request: HttpRequest, connection: Connection) -> TokenTable | None:
    """Return the lists of a connection, or None if it has none or the user may not see them."""
    paths, principal = [path_of(connection.resource)], principal_key(connection)
    return of_holder(request, _holder_of(connection), principal=principal, paths=paths)


def of_client(request: HttpRequest, client: Client) -> TokenTable | None:
    """Return the lists of the users who used a client last, each at the address of the connection."""
    if not may_ask(request.user) or client.disabled_at is not None:
        return None
    live = client.connections.filter(revoked_at=None).select_related("user").order_by("-last_used_at")
    meter = Meter(called_tools(request)[0])
    found = []
    for connection in live[:MOST_USERS]:
        holder = _holder_of(connection)
        if not holder.refused:
            costs = meter.lists(holder.permissions, holder.scopes, [path_of(connection.resource)])
            found += [(f"{marked(connection.user)}: {cost.path}", cost) for cost in costs]
    rows = rows_of(request, found)
    return TokenTable(rows) if rows else None


def _holder_of(connection: Connection) -> Holder:
    usable = connection.live and path_of(connection.resource)
    return limited_holder(connection.user, connection.scope, "" if usable else "the connection has ended")
