"""The Redis keys and channels, with their bounds and expiries.

===================================  ======  ===================================  ==========================
key                                  type    bound                                expires after
===================================  ======  ===================================  ==========================
mcp:{<session>}:session              hash    fields given by the session code     session ttl, tombstone ttl
mcp:{<session>}:subscriptions        set     limit of add_subscription            limits.session_ttl
mcp:{<session>}:index                zset    streams and requests still alive     limits.session_ttl
mcp:{<session>}:stream:<name>        stream  limits.events, limits.event_bytes    limits.ttl after a write
mcp:{<session>}:meta:<name>          hash    ten fields                           limits.ttl, less up to 1/8
mcp:{<session>}:request:<id>         string  one answer                           ttl of open
mcp:subscribers:<digest of the URI>  set     sessions (dead ones are swept)       limits.session_ttl
mcp:window:<key>                     string  one number                           the window
mcp:places:<key>                     zset    limit of acquire, open sessions      longest lease
mcp:limit:<key>                      string  one number                           the period, a day more
mcp:shared:<digest>                  string  one value                            given with the value
mcp:messages                         stream  limits.log_batches, log_percent      limits.log_ttl
mcp:health                           string  one byte                             60 seconds
mcp:worker                           string  one byte                             15 seconds
mcp:workers                          zset    workers alive (others are swept)     15 seconds
mcp:projects                         zset    100 projects of a day                a day after a start
mcp:{figures}:totals                 hash    200 names, some fields for each      7 days after a write
mcp:{figures}:names                  set     200 names                            7 days after a write
mcp:{figures}:reports                hash    processes of an hour                 7 days after a write
mcp:{figures}:processes              zset    processes of an hour                 7 days after a write
mcp:{kept}:expiries                  zset    streams, and minutes of ended ones   the longest life in it
mcp:{kept}:sizes                     hash    the same                             the same
mcp:{kept}:sums                      hash    their owners                         the same
===================================  ======  ===================================  ==========================

Keys of one session share a hash tag, and each script uses only keys with a common tag, as a Cluster requires.
A Cluster is not supported yet (client.py): all connections go to one server. Channels contain the number of
the database because publish/subscribe ignores databases: mcp:<db>:wake:<session>, mcp:<db>:topic:<topic>.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import NamedTuple

from mcp_app.streams.base import BadName

PREFIX = "mcp:"
MESSAGES = "mcp:messages"
HEALTH = "mcp:health"
WORKER = "mcp:worker"
WORKERS = "mcp:workers"
PROJECTS = "mcp:projects"
FIGURES = tuple(f"mcp:{{figures}}:{name}" for name in ("totals", "names", "reports", "processes"))
KEPT = tuple(f"mcp:{{kept}}:{name}" for name in ("expiries", "sizes", "sums"))
EVERYONE = "*"  # payload of a wake-up for all watchers of a session

# If a session id contained a brace, colon or space, a client could choose the hash tag or forge another
# key.
_SESSION = re.compile(r"[A-Za-z0-9_.~-]{1,128}")
_STREAM = re.compile(r"[a-z0-9-]{1,40}")
_REQUEST = re.compile(r"[A-Za-z0-9_.~-]{1,64}")
_PLAIN = re.compile(r"[A-Za-z0-9_.:~/@-]{1,120}")

PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"mcp:\{[A-Za-z0-9_.~-]{1,128}\}:(session|subscriptions|index)",
        r"mcp:\{[A-Za-z0-9_.~-]{1,128}\}:(stream|meta):[a-z0-9-]{1,40}",
        r"mcp:\{[A-Za-z0-9_.~-]{1,128}\}:request:[A-Za-z0-9_.~-]{1,64}",
        r"mcp:subscribers:[0-9a-f]{64}",
        r"mcp:(window|places|limit):[A-Za-z0-9_.:~/@-]{1,120}",
        r"mcp:shared:[0-9a-f]{64}",
        r"mcp:messages|mcp:health|mcp:workers?|mcp:projects",
        r"mcp:\{figures\}:(totals|names|reports|processes)",
        r"mcp:\{kept\}:(expiries|sizes|sums)",
    )
)


class SessionKeys(NamedTuple):
    """The keys of one session. ``base`` is the prefix of the keys of its streams and requests."""

    base: str
    session: str
    subscriptions: str
    members: str


class StreamKeys(NamedTuple):
    """The keys of one stream."""

    stream: str
    meta: str
    members: str
    session: str


class RequestKeys(NamedTuple):
    """The keys of a request to a client, and the name by which the waiter for its answer is woken.

    The name contains a colon, so it never equals the name of a stream.
    """

    request: str
    members: str
    session: str
    name: str


@lru_cache(maxsize=4096)
def session_keys(session: str) -> SessionKeys:
    """Return the keys of a session. Raise BadName for an invalid id."""
    if not _SESSION.fullmatch(session):
        raise BadName("A session id has 1 to 128 letters, digits or any of _.~- only.")
    base = f"{PREFIX}{{{session}}}:"
    return SessionKeys(base, base + "session", base + "subscriptions", base + "index")


@lru_cache(maxsize=4096)
def stream_keys(session: str, stream: str) -> StreamKeys:
    """Return the keys of a stream. Raise BadName for an invalid name."""
    keys = session_keys(session)
    if not _STREAM.fullmatch(stream):
        raise BadName("A stream name has 1 to 40 lower-case letters, digits or hyphens only.")
    return StreamKeys(f"{keys.base}stream:{stream}", f"{keys.base}meta:{stream}", keys.members, keys.session)


def field_arguments(fields: dict[str, str]) -> list[str]:
    """Return session fields as script arguments. Raise ValueError for invalid fields."""
    if not fields or "ended" in fields:
        raise ValueError("A session needs at least one field, and none may be called 'ended'.")
    return [part for pair in fields.items() for part in pair]


@lru_cache(maxsize=4096)
def request_keys(session: str, request_id: str) -> RequestKeys:
    """Return the keys of a request to a client. Raise BadName for an invalid id."""
    keys = session_keys(session)
    if not _REQUEST.fullmatch(request_id):
        raise BadName("A request id has 1 to 64 letters, digits or any of _.~- only.")
    name = f"request:{request_id}"
    return RequestKeys(keys.base + name, keys.members, keys.session, name)


def digest(text: str) -> str:
    """Return a digest of fixed length for a text of any length."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def subscribers_key(uri: str) -> str:
    """Return the key under which the subscribers of a resource are stored, for any URI."""
    return f"{PREFIX}subscribers:{digest(uri)}"


def _plain(key: str) -> str:
    return key if _PLAIN.fullmatch(key) else digest(key)


def window_key(key: str) -> str:
    """Return the key of a rate window. A long name or a name with unusual characters is hashed."""
    return f"{PREFIX}window:{_plain(key)}"


def places_key(key: str) -> str:
    """Return the key of a set of places. A long name or a name with unusual characters is hashed."""
    return f"{PREFIX}places:{_plain(key)}"


def limit_key(key: str) -> str:
    """Return the key of the count of a limit. A long name or a name with unusual characters is hashed."""
    return f"{PREFIX}limit:{_plain(key)}"


def shared_key(name: str) -> str:
    """Return the key of a value that all processes share for a limited time."""
    return f"{PREFIX}shared:{digest(name)}"


def is_known(key: str) -> bool:
    """Return True if this module lists the key."""
    return any(pattern.fullmatch(key) for pattern in PATTERNS)


class Channels:
    """The prefixes of the publish/subscribe channels of one deployment.

    ``wake`` is followed by a session id: the names of its streams that have new events are published there.
    ``topic`` is followed by the topic of a broadcast.
    """

    __slots__ = ("topic", "wake")

    def __init__(self, database: int) -> None:
        self.wake = f"{PREFIX}{database}:wake:"
        self.topic = f"{PREFIX}{database}:topic:"
