"""Parses the key of a principal: ``user:<id>``, ``user:<id>/<credential>`` or ``user:<id>/bench/by:<id>``.

Every limit counts people, never credentials: a person can create any number of API keys and OAuth clients.
``share_of`` returns the name of a person's counter for one limit.

Data that one client must not see or change of another is keyed by the whole key, so by credential: sessions,
event streams and their ids, replay, tasks, ``requestState``, cursors and idempotency keys. Audit and message
log name the credential as well.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

# Separates the user from the person who acts as that user.
ACTOR: Final = "/by:"
# The person behind a principal, for limits.
Person = NewType("Person", str)
# The name of one person's counter.
Share = NewType("Share", str)


class Bound(StrEnum):
    """A quantity that is limited for each person. Each has its row in ``docs/limits.md``."""

    TOOL_CALLS = "tool"
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
    """Return the primary key of the person acting under a principal's key; "" if it is the user."""
    _, found, actor = key.partition(ACTOR)
    return actor if found else ""


def person_of(key: str) -> Person:
    """Return the person behind a principal, whatever the credential; a key without a user is its own person.

    Calls that a person makes as another user count for that person. A machine counts as its service user. All
    callers without a credential, on loopback, are one person.
    """
    actor = actor_of(key) if ACTOR in key else ""
    return Person(f"user:{actor}" if actor else key.partition("/")[0])


def share_of(bound: Bound, key: str, what: str = "") -> Share:
    """Return the counter name of a principal's person for a limit; ``what`` separates several counters."""
    return Share(f"{bound}/{what}/{person_of(key)}" if what else f"{bound}/{person_of(key)}")
