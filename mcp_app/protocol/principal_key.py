"""How the key of a principal is read: ``user:<id>``, ``user:<id>/<way>`` or ``user:<id>/bench/by:<id>``."""

from __future__ import annotations

from typing import Final

# Separates the user from the person acting as that user.
ACTOR: Final = "/by:"


def actor_of(key: str) -> str:
    """The person acting under a principal's key, as the primary key of their user; "" if it is the user."""
    _, found, actor = key.partition(ACTOR)
    return actor if found else ""


def person_of(key: str) -> str:
    """The person behind a principal, whatever the credential; one without a user is returned unchanged.

    What may be kept is a person's share, or each further API key would be a further share. A person who
    tries something as another user does so on their own account.
    """
    actor = actor_of(key) if ACTOR in key else ""
    return f"user:{actor}" if actor else key.partition("/")[0]
