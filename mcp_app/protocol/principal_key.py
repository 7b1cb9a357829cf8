"""How the key of a principal is read: ``user:<id>``, ``user:<id>/<way>`` or ``user:<id>/bench/by:<id>``."""

from __future__ import annotations

from typing import Final

# Between the user and the person who acts as that user.
ACTOR: Final = "/by:"


def actor_of(key: str) -> str:
    """Who acts under the key of a principal, by the primary key of their user; "" when it is the user."""
    _, found, actor = key.partition(ACTOR)
    return actor if found else ""


def person_of(key: str) -> str:
    """The person behind a principal, by whichever credential they came in; who is no user stays as they are.

    What may be kept is a person's share, or each further API key would be a further share. Who tries
    something as somebody else does so at their own expense.
    """
    actor = actor_of(key)
    return f"user:{actor}" if actor else key.partition("/")[0]
