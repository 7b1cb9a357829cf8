"""Reads the key of a principal: ``user:<id>``, ``user:<id>/<way>`` or ``user:<id>/bench/by:<id>``.

Every bound counts people, never credentials: a person makes further API keys and OAuth clients at will, and
each would be a further share. ``share_of`` names the share of a person in one bound.

Only what one client must not see or change of another goes by the whole key, so by credential: sessions,
event streams and their ids, replay, tasks, ``requestState``, cursors and idempotency keys. Audit and message
log name the credential as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

# Separates the user from the person acting as that user.
ACTOR: Final = "/by:"
# Counted for the person of a principal.
Person = NewType("Person", str)
# A name of a counter that is one person's.
Share = NewType("Share", str)


class Bound(StrEnum):
    """A quantity that is bounded for each person. Each has its row in ``docs/limits.md``."""

    CALLS_PER_MINUTE = "tool"
    RUNNING_CALLS = "running"
    OPEN_BACKGROUND_CALLS = "background"
    RUNNING_BACKGROUND_CALLS = "background-running"
    WAITING_APPROVALS = "approvals"
    HELD_QUESTIONS = "questions"
    TURNS = "turns"
    SESSIONS = "sessions"
    EVENT_STREAMS = "streams"
    KEPT_BYTES = "kept"
    COMPLETIONS = "completions"
    TASK_REQUESTS = "tasks"
    API_REQUESTS = "api"
    CONNECTIONS = "connections"


def actor_of(key: str) -> str:
    """The person acting under a principal's key, as the primary key of their user; "" if it is the user."""
    _, found, actor = key.partition(ACTOR)
    return actor if found else ""


def person_of(key: str) -> Person:
    """Return the person behind a principal, whatever the credential; a key without a user is its own person.

    A person who tries something as another user does so on their own account. A machine is the person of its
    service user. All callers without a credential, on loopback, are one person.
    """
    actor = actor_of(key) if ACTOR in key else ""
    return Person(f"user:{actor}" if actor else key.partition("/")[0])


def share_of(bound: Bound, key: str, what: str = "") -> Share:
    """Return the name of the counter of a principal's person in a bound; ``what`` if there are several."""
    return Share(f"{bound}/{what}/{person_of(key)}" if what else f"{bound}/{person_of(key)}")
