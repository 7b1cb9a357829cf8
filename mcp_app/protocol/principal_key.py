"""Parsing of principal keys: ``user:<id>``, ``user:<id>/<credential>`` or ``user:<id>/bench/by:<id>``.

Every limit counts people and not credentials, because a person can create any number of API keys and OAuth
clients. ``share_of`` returns the name of a person's counter for one limit.

Some data must be separate for each client of a person: sessions, event streams and their ids, replay,
tasks, ``requestState``, cursors and idempotency keys. Such data is stored under the whole key, which
includes the credential. The audit trail and the message log contain the whole key as well.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple, NewType

# Separates the user from the person who acts on behalf of that user.
ACTOR: Final = "/by:"
# Follows the user in the keys of the test bench.
BENCH: Final = "/bench"
# The person behind a principal. Limits count people.
Person = NewType("Person", str)
# The name of a person's counter for one limit.
Share = NewType("Share", str)


_USER: Final = re.compile(r"user:([^/]+)")
_CREDENTIAL: Final = re.compile(r"/(key|client):([0-9]{1,18})\Z")


class CallerIds(NamedTuple):
    """The primary keys in a principal key, as text. "" stands for a missing one.

    ``api_key`` and ``client`` are credentials: an API key, or a registered OAuth client. ``actor`` is the
    person who acts as ``user``.
    """

    user: str = ""
    api_key: str = ""
    client: str = ""
    actor: str = ""


class Bound(StrEnum):
    """A quantity that is limited for each person. ``docs/limits.md`` has one row for each."""

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


def caller_ids(key: str) -> CallerIds:
    """Return the user, the credential and the actor in a principal key."""
    user, credential = _USER.match(key), _CREDENTIAL.search(key)
    if user is None:
        return CallerIds()
    kind, number = (credential[1], credential[2]) if credential else ("", "")
    return CallerIds(
        user[1],
        api_key=number if kind == "key" else "",
        client=number if kind == "client" else "",
        actor=actor_of(key),
    )


def actor_of(key: str) -> str:
    """Return the primary key of the person who acts as the key's user, or "" if the user acts."""
    _, found, actor = key.partition(ACTOR)
    return actor if found else ""


def person_of(key: str) -> Person:
    """Return the person behind a principal, with any credential.

    A key without a user counts as a separate person. If a person calls as another user, the call counts
    for the person. A machine counts as its service user. All callers without a credential, on loopback,
    count as one person.
    """
    actor = actor_of(key) if ACTOR in key else ""
    return Person(f"user:{actor}" if actor else key.partition("/")[0])


def share_of(bound: Bound, key: str, what: str = "") -> Share:
    """Return the counter name of a principal's person for a limit. ``what`` separates several counters."""
    return Share(f"{bound}/{what}/{person_of(key)}" if what else f"{bound}/{person_of(key)}")
