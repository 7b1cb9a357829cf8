"""Makers of credentials: users who issued an API key or entered an OAuth client.

The maker of a credential knows its secret. A call made with the credential may therefore be the maker's own.
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
# No role includes this permission, but superusers have every permission. Only they can issue keys for others.
ISSUE_FOR_OTHERS: Final = "mcp_app.issue_keys_for_others"


@dataclass(frozen=True, slots=True)
class Maker:
    """The maker of one credential.

    ``user`` is the maker's primary key as text, or "" if no user made the credential or the maker is unknown.
    In the second case ``could`` is set, and any user with that permission may be the maker.
    """

    user: str = ""
    could: str = ""
    what: str = ""

    def may_be(self, actor: Any) -> bool:
        """Return True if ``actor`` made the credential or may have made it."""
        return str(actor.pk) == self.user or (self.could != "" and actor.has_perm(self.could))


# A function that maps the connections matching a condition to the makers of the connections' clients.
Clients = Callable[[Q], Mapping[int, Maker]]
_clients: list[Clients] = []


def register_clients(makers: Clients) -> None:
    """Register a function that returns the makers of the clients of connections."""
    _clients.append(makers)


def makers_of_connections(which: Q) -> dict[int, Maker]:
    """Map the connections that match a condition to the makers of the connections' clients."""
    found: dict[int, Maker] = {}
    for each in _clients:
        found.update(each(which))
    return found


def makers_of_user(user_id: Any, before: datetime | None = None) -> list[Maker]:
    """Return the makers of those credentials of a user that can administer this server over the API.

    Each maker may have acted as the user. With ``before``, only credentials created earlier count.
    """
    which = Q(user_id=user_id) if before is None else Q(user_id=user_id, created_at__lt=before)
    keys = ApiKey.objects.filter(which, scopes__contains=ADMIN).exclude(issued_by_id=user_id)
    connections = makers_of_connections(which & Q(scope__contains=ADMIN))
    return [replace(each, what=HELD) for each in (*map(maker_of_key, keys), *connections.values())]


def maker_of_key(key: ApiKey) -> Maker:
    """Return the maker of an API key. A key issued by a management command has no maker."""
    return maker(key.issued_by_id, (ISSUED,), str(key), could=ISSUE_FOR_OTHERS, what="issued its API key")


def maker(user_id: Any, actions: Collection[str], object_key: str, *, could: str, what: str) -> Maker:
    """Return the maker from the stored ``user_id``.

    Rows of earlier versions have no ``user_id``. For them, the maker is read from the audit trail.
    """
    if user_id is not None:
        return Maker(user=str(user_id), what=what)
    made = AuditEvent.objects.filter(action__in=actions, object_key=object_key[:500]).first()
    if made is None:
        return Maker(could=could, what=what)
    return Maker(user="" if made.actor_id is None else str(made.actor_id), what=what)
