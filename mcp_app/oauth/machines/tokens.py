"""Access tokens of machines.

Each machine has one connection per resource. Machines get no refresh tokens and request new access tokens
instead.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.oauth import secrets
from mcp_app.oauth.connections import audit_connection, principal_key
from mcp_app.oauth.models import AccessToken, Client, Connection
from mcp_app.streams.blocking.announce import announce

# Tokens per connection of a machine. Above this limit, the oldest tokens are deleted, because a machine that
# requests a token per call must not fill the table.
MAX_LIVE: Final = 1_000


def give(client: Client, resource: str, token: str, scope: str, seconds: int) -> None:
    """Store an access token for a machine.

    ``seconds`` is its lifetime. The machine must have a service user.
    """
    now = clock.utcnow()
    with transaction.atomic():
        connection = _connection(client, resource, now)
        AccessToken.objects.create(
            connection=connection,
            digest=secrets.digest(token),
            scope=scope,
            expires_at=now + timedelta(seconds=seconds),
        )
        for old in connection.access_tokens.order_by("-pk")[MAX_LIVE : MAX_LIVE + 10]:
            old.delete()


def _connection(client: Client, resource: str, now: datetime) -> Connection:
    """Return the machine's live connection to a resource, created or extended as needed."""
    user: Any = client.service_user
    ends = now + timedelta(seconds=conf.get().oauth_connection_seconds)
    live = Connection.objects.filter(
        client=client, user=user, resource=resource, revoked_at=None, ends_at__gt=now
    ).first()
    if live is None:
        live = Connection.objects.create(
            client=client, user=user, resource=resource, scope=client.scope, ends_at=ends
        )
        audit_connection(user, "oauth.machine_connect", live)
    elif live.ends_at < ends - timedelta(days=1) or live.ends_at > ends:
        Connection.objects.filter(pk=live.pk).update(ends_at=ends)
    return live


def revoke(token: str, client: Client) -> None:
    """Delete one access token of a machine. Its other tokens stay valid."""
    with transaction.atomic():
        rows = AccessToken.objects.select_related("connection")
        row = rows.filter(digest=secrets.digest(token), connection__client=client).first()
        if row is None:
            return
        row.delete()
        ids = {"connection": row.connection_id, "principal": principal_key(row.connection)}
        transaction.on_commit(lambda: announce("credentials", ids))
