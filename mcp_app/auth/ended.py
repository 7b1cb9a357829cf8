"""Hooks that run when a credential or an account ends.

Other packages register hooks to end the sessions and calls of the credential.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from mcp_app.models import ApiKey
from mcp_app.protocol.principal_key import ACTOR


@dataclass(frozen=True, slots=True)
class EndedWork:
    """The numbers of sessions and of calls waiting for approval that ended with a credential."""

    sessions: int = 0
    calls: int = 0

    def __add__(self, other: EndedWork) -> EndedWork:
        return EndedWork(self.sessions + other.sessions, self.calls + other.calls)

    def __str__(self) -> str:
        """Return text such as ``Ended 3 sessions, refused 1 waiting call.``, or "" if nothing ended."""
        ended = (("ended", self.sessions, "session"), ("refused", self.calls, "waiting call"))
        said = [
            f"{verb} {number:,} {what}{'' if number == 1 else 's'}" for verb, number, what in ended if number
        ]
        return f"{', '.join(said)}.".capitalize() if said else ""


# A hook. It runs in the transaction that ends the credential. The first argument is the query condition for
# stored calls made with the credential. The others are the key of the principal whose sessions end ("" for
# none), the acting user, and the reason for which these sessions end.
End = Callable[[Q, str, Any, str], EndedWork]
_ends: list[End] = []


def register(end: End) -> None:
    """Register a hook that runs each time a credential or an account ends."""
    _ends.append(end)


def end_work(which: Q, *, principal: str = "", actor: Any = None, reason: str = "") -> EndedWork:
    """Run the hooks for a credential that ended. Return counts of the work they ended."""
    return sum((end(which, principal, actor, reason) for end in _ends), EndedWork())


def key_ended(key: ApiKey, event: str, actor: Any = None) -> EndedWork:
    """End the sessions and waiting calls of an API key that was ``revoked``, ``deleted`` or ``expired``."""
    principal = f"user:{key.user_id}/key:{key.pk}"
    return end_work(Q(api_key_id=key.pk), principal=principal, actor=actor, reason=f"API key {event}")


def of_person(user_id: Any) -> Q:
    """Return the query condition for all calls of a user.

    It matches calls made with any credential of the user, and calls that the user made as another user.
    """
    own = f"user:{user_id}"
    as_another = Q(principal__endswith=f"{ACTOR}{user_id}")
    return Q(principal=own) | Q(principal__startswith=f"{own}/") | as_another
