"""The connections of users: which servers a user may connect, and the end of connections.

``actor`` is the acting user. Callers check that it is the user of the connection, or the actor's permission.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.db import transaction

from mcp_app.catalogue.upstreams.entries import entries_of
from mcp_app.models import Upstream, UpstreamClient, UserConnection, audit
from mcp_app.sealing import Unsealed
from mcp_app.upstreams.accounts import tokens, use
from mcp_app.upstreams.accounts.tokens import Tokens, TokensFailed

# Users who may change servers read their lists, for which they may need an account.
MANAGE: Final = "mcp_app.change_upstream"

log = logging.getLogger("mcp.upstream")


def servers_for(user: Any) -> list[Upstream]:
    """Return the servers that a user may connect: those with an entry that the user can use."""
    rows = Upstream.objects.defer("listed").filter(user_connections=True, enabled=True)
    return [row for row in rows if user.has_perm(MANAGE) or _can_use(user, row)]


def connections_of(user: Any) -> dict[int, UserConnection]:
    """Return the connections of a user, by server."""
    rows = UserConnection.objects.filter(user_id=user.pk).select_related("upstream", "client")
    return {row.upstream_id: row for row in rows.defer("upstream__listed")}


def end(*, connections: Iterable[UserConnection], actor: Any) -> int:
    """End connections, and revoke their tokens where the authorization server can. Return their number."""
    number, ended = 0, []
    for row in connections:
        with transaction.atomic():
            found = UserConnection.objects.select_for_update().filter(pk=row.pk, key=row.key).first()
            if found is None:
                continue
            found.client = UpstreamClient.objects.select_related("upstream").get(pk=found.client_id)
            old = _tokens(found)
            found.delete()
            record(actor, "upstream.connection_ended", row.upstream, row.user)
        use.drop(row.upstream_id, row.user_id)
        number += 1
        if old is not None:
            ended.append((found.client, old))
    if ended:
        async_to_sync(_revoked)(ended)
    return number


def record(actor: Any, action: str, upstream: Upstream, user: Any) -> None:
    """Write an audit event about a connection."""
    audit(
        actor=actor,
        action=action,
        object_kind="upstream",
        object_key=upstream.name,
        detail={"user": str(user.pk)},
    )


async def _revoked(each: list[tuple[UpstreamClient, Tokens]]) -> None:
    """Revoke tokens at their authorization servers, all at once. Failures are logged."""
    outcomes = await asyncio.gather(*(tokens.revoke(*one) for one in each), return_exceptions=True)
    for (client, _), outcome in zip(each, outcomes, strict=True):
        if isinstance(outcome, TokensFailed):
            log.warning("Tokens at %s were not revoked: %s", client.issuer, outcome)
        elif isinstance(outcome, BaseException):
            raise outcome


def _tokens(row: UserConnection) -> Tokens | None:
    try:
        return tokens.opened(row) if row.sealed else None
    except Unsealed:
        return None


def _can_use(user: Any, row: Upstream) -> bool:
    entries = entries_of(row).values()
    return any(each.enabled and (not each.permission or user.has_perm(each.permission)) for each in entries)
