"""Ends of credentials and accounts: hooks for the layers that hold their work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import ACTOR


@dataclass(frozen=True, slots=True)
class EndedWork:
    """The work that ended with a credential: sessions, and calls that waited for approval."""

    sessions: int = 0
    calls: int = 0

    def __add__(self, other: EndedWork) -> EndedWork:
        return EndedWork(self.sessions + other.sessions, self.calls + other.calls)

    def __str__(self) -> str:
        """Return ``Ended 3 sessions, refused 1 waiting call.``; "" if nothing ended."""
        ended = (("ended", self.sessions, "session"), ("refused", self.calls, "waiting call"))
        said = [
            f"{verb} {number:,} {what}{'' if number == 1 else 's'}" for verb, number, what in ended if number
        ]
        return f"{', '.join(said)}.".capitalize() if said else ""


# Called in the transaction of an end, with the condition for stored calls that came by the credential, its
# principal if its sessions end with it, and the acting user.
End = Callable[[Q, str, Any], EndedWork]
_ends: list[End] = []


def register(end: End) -> None:
    """Register ``end`` to be called for each credential and account that ends."""
    _ends.append(end)


def end_work(which: Q, *, principal: str = "", actor: Any = None) -> EndedWork:
    """End the work of an ended credential and return its extent."""
    return sum((end(which, principal, actor) for end in _ends), EndedWork())


def key_ended(key: ApiKey, actor: Any = None) -> EndedWork:
    """End the sessions and the waiting calls of an API key that was revoked or deleted."""
    return end_work(Q(api_key_id=key.pk), principal=f"user:{key.user_id}/key:{key.pk}", actor=actor)


def of_person(user_id: Any) -> Q:
    """Return the condition for calls of a user, by any credential, and for those made as another user."""
    own = f"user:{user_id}"
    as_another = Q(principal__endswith=f"{ACTOR}{user_id}")
    return Q(principal=own) | Q(principal__startswith=f"{own}/") | as_another
