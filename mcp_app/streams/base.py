"""Owns the words and contracts of event streams; must not know how they are stored.

A stream is named by (session id, stream name) and holds numbered events. Each time it comes into being it
gets a random epoch, so that a position of an earlier life is never mistaken for one of this life. Offset 0 is
the place before the first event (that of the priming event, which is never stored); events count from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

# What a reader takes at once. A client that stops reading keeps it in memory (R16), and messages may be long.
PAGE_EVENTS: Final = 16

MESSAGE, CLOSE, FOLLOW, FINAL = "message", "close", "follow", "final"
# How to append an answer when others are still to come on the stream; it is read as a message.
ANSWER: Final = "answer"


# Events of more bytes than this need room when they are written, not only when their call was accepted.
LARGE_BYTES = 65_536


class StreamsError(Exception):
    """The event streams could not do what was asked."""


class StreamsUnavailable(StreamsError):
    """Redis cannot be reached or does not answer now; whether the command took effect is unknown."""


class StreamsFull(StreamsUnavailable):
    """Redis has reached its memory limit and refuses to take more."""


class KeptFull(StreamsError):
    """As much is kept for this owner as may be, or Redis has no room for something large of accepted work."""


class StreamUnknown(StreamsError):
    """There is no such stream, or it has been created anew since the position was given out."""


class StreamFinished(StreamsError):
    """The stream takes no more events: it is final, its session ended, or a newer attempt writes to it."""


class SessionEnded(StreamsError):
    """The session was ended and must not come back."""


class BadName(StreamsError, ValueError):
    """A session id, stream name or request id has characters or a length that no key may have."""


class Position(NamedTuple):
    """A place in one life of a stream."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event.

    ``kind`` is "message", "close" (``data`` is a retry time in milliseconds to announce before the connection
    is closed; the stream goes on), "follow" (``data`` names another stream that belongs in here) or "final"
    (nothing follows; ``data`` may be empty).
    """

    epoch: int
    offset: int
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a position. ``finished``: nothing follows them. ``gap``: some before were trimmed."""

    events: list[Event]
    finished: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Bounds of what is kept. Times are seconds, sizes bytes.

    ``kept_bytes`` and ``kept_percent`` (of the memory Redis may use) bound what is kept for one owner; beyond
    ``full_percent`` of that memory no owner is admitted. 0 is no bound. ``log_percent`` of that memory bounds
    the batches of the message log that wait.
    """

    events: int = 1_000
    event_bytes: int = 1024 * 1024
    ttl: int = 3_600
    session_ttl: int = 86_400
    slow_poll: float = 5.0
    log_batches: int = 512
    log_batch_bytes: int = 1024 * 1024
    log_percent: int = 20
    log_ttl: int = 7 * 86_400
    kept_bytes: int = 64 * 1024 * 1024
    kept_percent: int = 25
    full_percent: int = 80


class EventLog(Protocol):
    """Numbered, bounded, expiring events. Every method raises StreamsUnavailable when the store is away."""

    limits: StreamLimits

    async def append(
        self, session: str, stream: str, data: bytes, *, kind: str = MESSAGE, fence: int = 0, owner: str = ""
    ) -> Position:
        """Add an event (creating the stream) and wake its readers.

        An ANSWER is never trimmed. ``owner``: on whose account the stream is kept if it is created; if empty,
        on that of its session's principal. ``fence`` is the attempt number of the writer: once a higher one
        has written, a lower one is refused. Raises StreamFinished (if the session ended, too), StreamsFull,
        and KeptFull for more than LARGE_BYTES on the account of a named ``owner`` who has no room for it.
        """
        ...

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        """Add the one final event (creating the stream); works also when the store is full.

        Raises KeptFull as ``append`` does.

        None when the stream was final already, the session ended, or ``fence`` is older than the stored one.
        """
        ...

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        """Create the stream when absent and return the position before its first event (offset 0).

        ``session_fields`` are set in the session by the same step, as ``SessionStore.update`` does.
        Raises StreamFinished when the session ended.
        """
        ...

    async def head(self, session: str, stream: str) -> Position | None:
        """The position of the newest event (offset 0 when there is none yet), None for no such stream."""
        ...

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = PAGE_EVENTS) -> Page:
        """Up to ``count`` events after an offset; raises StreamUnknown when ``epoch`` is not this life."""
        ...

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        """Let the stream live for its full time from now; attempts below ``fence`` write to it no more."""
        ...

    async def drop(self, session: str, stream: str) -> None:
        """Forget the stream at once."""
        ...


class Kept(Protocol):
    """What the streams of each owner hold, judged by the store's own clock; right again after each expiry."""

    async def held(self, owner: str) -> int:
        """Bytes that are kept for an owner, with what they cost besides their data."""
        ...

    async def admit(self, owner: str) -> None:
        """Let begin what will keep more for an owner.

        Raises KeptFull above his share, StreamsFull when all owners together have nearly filled the store.
        """
        ...

    def refused(self, owner: str) -> bool:
        """Whether the owner was at its share at the last ``admit`` in this process. Does not ask Redis."""
        ...


Callback = Callable[[dict[str, Any]], None]


class Watch(Protocol):
    """One waiter for news of (session, name); made by ``Hub.watch``, costs no task and no connection."""

    news: bool  # set it to False before looking at the store, so that none in between is lost

    def seen(self, position: Position) -> None:
        """Say how far the waiter has read, so that the slow poll wakes it only when there is more."""
        ...

    def wake(self) -> None:
        """Let the waiter look again."""
        ...

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109
        """True as soon as there is ``news``, False after ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """Stop watching; safe to repeat."""
        ...


class Hub(Protocol):
    """Wake-ups for readers of this process, and small broadcasts to all processes."""

    def watch(self, session: str, name: str) -> Watch:
        """Start watching one stream (or one open request) of a session."""
        ...

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        """Call ``callback(payload)`` on the event loop for each broadcast; returns the way to stop that.

        After a lost connection the payload is ``{"resync": True}``: broadcasts may have been missed, look
        at the truth again. A broadcast reaches the process that published it, too.
        """
        ...

    async def publish(self, topic: str, payload: dict[str, Any]) -> None:
        """Tell every process; the payload must be JSON. At most once: the truth must be stored elsewhere."""
        ...

    def publish_now(self, topic: str, payload: dict[str, Any]) -> None:
        """The same from a thread without an event loop (a Django view, a management command)."""
        ...


Broadcast = tuple[str, dict[str, Any]]  # a topic, and what every process is told on it


class SessionStore(Protocol):
    """The hot copies of sessions: flat fields that expire, and resource subscriptions."""

    async def create(self, session: str, fields: dict[str, str], ttl: int) -> None:
        """Store the fields; raises SessionEnded when this session was ended before."""
        ...

    async def open(self, session: str, fields: dict[str, str], ttl: int, places: str, limit: int) -> bool:
        """``create`` a session in one of ``limit`` places (``Windows.acquire``); False when all are taken."""
        ...

    async def load(self, session: str) -> dict[str, str] | None:
        """The fields; None when unknown or expired; raises SessionEnded."""
        ...

    async def update(self, session: str, fields: dict[str, str], broadcast: Broadcast | None = None) -> bool:
        """Change some fields of a living session; False when it is unknown; raises SessionEnded.

        ``broadcast`` is told if it was ever touched: before that, only its maker knows it.
        """
        ...

    async def touch(self, session: str, ttl: int) -> bool:
        """Let a session that was loaded live ``ttl`` seconds from now; False when it is unknown or ended."""
        ...

    async def end(self, session: str, tombstone_ttl: int, broadcast: Broadcast | None = None) -> str:
        """End it for every process: its keys and streams go, its readers wake, ``load`` says SessionEnded.

        Returns the field "principal"; "" when it had none, or is unknown or ended.
        """
        ...

    async def end_unless(
        self, session: str, field: str, tombstone_ttl: int, places: str, broadcast: Broadcast
    ) -> bool:
        """``end`` it and give back its place if it has no such field; False when it has, or is unknown.

        ``broadcast`` is told as by ``update``. Raises SessionEnded.
        """
        ...

    async def add_subscription(self, session: str, uri: str, limit: int) -> bool:
        """Subscribe the session to a resource; False when it has ``limit`` others already."""
        ...

    async def remove_subscription(self, session: str, uri: str) -> None:
        """The opposite; no error when there was none."""
        ...

    async def subscribed(self, session: str, uris: Sequence[str]) -> list[str]:
        """Those of some resources that the session is subscribed to, in their order."""
        ...

    async def subscribers(self, uri: str) -> list[str]:
        """The living sessions subscribed to a resource."""
        ...


class RequestStore(Protocol):
    """Requests from server to client, whose answers may arrive at any process."""

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """Expect one answer for at most ``ttl`` seconds."""
        ...

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        """Give the answer; True only for the first one to a request that is open. Any string is a safe id."""
        ...

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        """The answer; None after ``timeout`` seconds, or at once when the request is not open (any more)."""
        ...

    async def drop(self, session: str, request_id: str) -> None:
        """Expect no answer any more."""
        ...


class Windows(Protocol):
    """Counters over time, shared by all processes."""

    async def hit(self, key: str, limit: int, seconds: float) -> bool:
        """Count one event in a fixed window; False when there were ``limit`` in it already."""
        ...

    async def acquire(self, key: str, holder: str, limit: int, seconds: float) -> bool:
        """Take (or renew) one of ``limit`` places for ``seconds``; False when all are taken by others."""
        ...

    async def release(self, key: str, holder: str) -> None:
        """Give the place back; no error when it was not held."""
        ...

    async def held(self, key: str) -> int:
        """How many places are taken now."""
        ...


# What is written before a name, the name, what is written after it, and by how much to count up.
Increment = tuple[str, str, str, int]


class Totals(NamedTuple):
    """What was counted in all, and the state each living process reported last."""

    counts: dict[str, int]
    states: dict[str, bytes]


class MetricsStore(Protocol):
    """What all processes count together; a count outlives the process that made it."""

    async def add(self, process: str, number: int, increments: Sequence[Increment], state: bytes) -> None:
        """Take in a report; it counts if its ``number`` is above that of the process' last one."""
        ...

    async def read(self) -> Totals:
        """The totals and the living processes."""
        ...

    async def memory(self) -> tuple[int, int] | None:
        """Bytes Redis uses and may use (0: no limit); None without Redis."""
        ...


class MessageQueue(Protocol):
    """Batches of the message log on their way to the database; a full queue refuses more."""

    async def push(self, batch: bytes) -> None:
        """Add one batch; raises StreamsFull when it is full, ValueError for one larger than the limit."""
        ...

    async def read(self, after_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        """Up to ``count`` batches after an id ("0" is the beginning), oldest first."""
        ...

    async def trim(self, through_id: str) -> None:
        """Forget the batches up to and including an id."""
        ...

    async def depth(self) -> int:
        """How many batches wait."""
        ...

    async def full(self) -> bool:
        """Whether no more is taken until some were written: as many wait as may, or as many bytes."""
        ...


class MessageTail(Protocol):
    """The batches of the message log as they arrive, for viewers; they stay in the queue."""

    async def newest(self) -> str:
        """The id of the batch that was added last, also when it was written and trimmed since."""
        ...

    async def after(self, batch_id: str, count: int, seconds: float) -> Sequence[tuple[str, bytes]]:
        """Up to ``count`` batches after an id, as soon as there is one; none after ``seconds``.

        Trimmed batches are skipped silently: readers must detect gaps by the counts in the batches.
        """
        ...

    async def close(self) -> None:
        """Let go of what watching needs; the next look takes it up again."""
        ...
