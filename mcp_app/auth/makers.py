"""Makers of credentials: who issued an API key, who entered an OAuth client.

A maker held the secret before its user did, so a call made with it may be the maker's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.models import ApiKey, AuditEvent

ISSUED: Final = "api_key.issue"
# No role has this permission, and superusers have every one: they alone issue keys for others.
ISSUE_FOR_OTHERS: Final = "mcp_app.issue_keys_for_others"


@dataclass(frozen=True, slots=True)
class Maker:
    """The maker of one credential.

    ``user`` is a primary key as text, "" where no user made it. Where the maker is not known, each user with
    the permission ``could`` may be it.
    """

    user: str = ""
    could: str = ""
    what: str = ""

    def may_be(self, actor: Any) -> bool:
        """Return True if this user made the credential, or may have."""
        return str(actor.pk) == self.user or (self.could != "" and actor.has_perm(self.could))


# Asked for the makers of the clients that some connections belong to, by connection.
Clients = Callable[[Collection[int]], Mapping[int, Maker]]
_clients: list[Clients] = []


def register_clients(makers: Clients) -> None:
    """Have ``makers`` name who entered the clients of connections."""
    _clients.append(makers)


def makers_of_connections(connections: Collection[int]) -> dict[int, Maker]:
    """Return the makers of the clients that these connections belong to, by connection."""
    found: dict[int, Maker] = {}
    for each in _clients if connections else ():
        found.update(each(connections))
    return found


def maker_of_key(key: ApiKey) -> Maker:
    """Return who issued a key. One that a command issued has no maker."""
    return maker(key.issued_by_id, (ISSUED,), str(key), could=ISSUE_FOR_OTHERS, what="issued its API key")


def maker(user_id: Any, actions: Collection[str], object_key: str, *, could: str, what: str) -> Maker:
    """Return the maker from its column, else from the audit trail, which earlier versions wrote alone."""
    if user_id is not None:
        return Maker(user=str(user_id), what=what)
    made = AuditEvent.objects.filter(action__in=actions, object_key=object_key[:500]).first()
    if made is None:
        return Maker(could=could, what=what)
    return Maker(user="" if made.actor_id is None else str(made.actor_id), what=what)
