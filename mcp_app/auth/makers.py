"""Makers of credentials: users who issued an API key or entered an OAuth client.

A maker knew the secret before its user, so a call made with it may be the maker's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from mcp_app.models import ApiKey, AuditEvent
from mcp_app.protocol.scopes import ADMIN

ISSUED: Final = "api_key.issue"
HELD: Final = "made a credential of a user who has a part in this call"
# No role has this permission, and superusers have every one: they alone issue keys for others.
ISSUE_FOR_OTHERS: Final = "mcp_app.issue_keys_for_others"


@dataclass(frozen=True, slots=True)
class Maker:
    """The maker of one credential.

    ``user`` is a primary key as text, "" if no user made it. If the maker is unknown, each user with the
    permission ``could`` may be the maker.
    """

    user: str = ""
    could: str = ""
    what: str = ""

    def may_be(self, actor: Any) -> bool:
        """Return True if this user made the credential, or may have."""
        return str(actor.pk) == self.user or (self.could != "" and actor.has_perm(self.could))


# Maps the connections that match a condition to the makers of their clients.
Clients = Callable[[Q], Mapping[int, Maker]]
_clients: list[Clients] = []


def register_clients(makers: Clients) -> None:
    """Register ``makers``, which returns the makers of connections' clients."""
    _clients.append(makers)


def makers_of_connections(which: Q) -> dict[int, Maker]:
    """Map connections to the makers of their clients."""
    found: dict[int, Maker] = {}
    for each in _clients:
        found.update(each(which))
    return found


def makers_of_user(user_id: Any, before: datetime | None = None) -> list[Maker]:
    """Return the makers of a user's credentials that can administer this server over the API.

    Each of them may have acted as the user. With ``before``, only earlier credentials count.
    """
    which = Q(user_id=user_id) if before is None else Q(user_id=user_id, created_at__lt=before)
    keys = ApiKey.objects.filter(which, scopes__contains=ADMIN).exclude(issued_by_id=user_id)
    connections = makers_of_connections(which & Q(scope__contains=ADMIN))
    return [replace(each, what=HELD) for each in (*map(maker_of_key, keys), *connections.values())]


def maker_of_key(key: ApiKey) -> Maker:
    """Return the maker of a key. A key that a command issued has none."""
    return maker(key.issued_by_id, (ISSUED,), str(key), could=ISSUE_FOR_OTHERS, what="issued its API key")


def maker(user_id: Any, actions: Collection[str], object_key: str, *, could: str, what: str) -> Maker:
    """Return the maker by its column, or by the audit trail for rows of earlier versions."""
    if user_id is not None:
        return Maker(user=str(user_id), what=what)
    made = AuditEvent.objects.filter(action__in=actions, object_key=object_key[:500]).first()
    if made is None:
        return Maker(could=could, what=what)
    return Maker(user="" if made.actor_id is None else str(made.actor_id), what=what)
