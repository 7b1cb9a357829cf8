"""Types and contracts of event streams; independent of their storage.

A stream is identified by (session id, stream name) and holds numbered events. Each creation assigns a random
epoch, so that a position in a deleted stream never matches a new stream of the same name. Offset 0 is the
position before the first event (that of the priming event, which is never stored). Events count from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

# Events per read. A client that stops reading holds one page in memory (R16), and messages may be long.
PAGE_EVENTS: Final = 16

MESSAGE, CLOSE, FOLLOW, FINAL = "message", "close", "follow", "final"
# The kind of an answer in a stream that expects further answers; readers see it as a message.
ANSWER: Final = "answer"


# Events above this size need quota when they are written, not only when their call was accepted.
LARGE_BYTES = 65_536


class StreamsError(Exception):
    """An operation on the event streams failed."""


class StreamsUnavailable(StreamsError):
    """Redis is unreachable or does not answer; the command may or may not have taken effect."""


class StreamsFull(StreamsUnavailable):
    """Redis has reached its memory limit and refuses writes."""


class KeptFull(StreamsError):
    """The owner's storage quota is used up, or Redis lacks memory for a large result of accepted work."""


class StreamUnknown(StreamsError):
    """The stream does not exist, or was created again after the position was issued."""


class StreamFinished(StreamsError):
    """The stream accepts no events: it is final, its session ended, or a newer attempt writes to it."""


class SessionEnded(StreamsError):
    """The session was ended and cannot be created again."""


class BadName(StreamsError, ValueError):
    """A session id, stream name or request id has invalid characters or an invalid length."""


class Position(NamedTuple):
    """A position in a stream of one epoch."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event.

    ``kind`` is "message", "close" (close the connection after the client received ``data``, a retry time in
    milliseconds; the stream continues), "follow" (``data`` names another stream to include here) or "final"
    (the last event; ``data`` may be empty).
    """

    epoch: int
    offset: int
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a position. ``finished``: they end the stream. ``gap``: earlier ones were trimmed."""

    events: list[Event]
    finished: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of stored data. Times are in seconds, sizes in bytes.

    ``kept_bytes`` and ``kept_percent`` (of Redis' memory limit) limit the data of one owner. Above
    ``full_percent`` of the memory limit no owner is admitted. 0 means no limit. ``log_percent`` of the memory
    limit bounds the pending batches of the message log.
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
    """Numbered, bounded, expiring events. Methods raise StreamsUnavailable while the store is unreachable."""

    limits: StreamLimits

    async def append(
        self, session: str, stream: str, data: bytes, *, kind: str = MESSAGE, fence: int = 0, owner: str = ""
    ) -> Position:
        """Append an event and wake the stream's readers; create the stream if needed.

        An ANSWER is never trimmed. ``owner`` is charged for a new stream; if empty, the principal of its
        session is. ``fence`` is the attempt number of the writer: after a write with a higher fence, lower
        ones are refused. Raise StreamFinished (also for an ended session), StreamsFull, or KeptFull if
        ``owner`` lacks quota for more than LARGE_BYTES.
        """
        ...

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        """Append the final event, once, even if the store is full; create the stream if needed.

        Return None if the stream was final, the session ended, or ``fence`` is older than the stored one.
        Raise KeptFull as ``append`` does.
        """
        ...

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        """Create the stream if needed; return the position before its first event (offset 0).

        ``session_fields`` are set in the session atomically, as ``SessionStore.update`` does. Raise
        StreamFinished if the session ended.
        """
        ...

    async def head(self, session: str, stream: str) -> Position | None:
        """Return the position of the newest event (offset 0 without events); None for an unknown stream."""
        ...

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = PAGE_EVENTS) -> Page:
        """Return up to ``count`` events after an offset; raise StreamUnknown if ``epoch`` does not match."""
        ...

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        """Reset the stream's expiry to its full time; refuse later writes of attempts below ``fence``."""
        ...

    async def drop(self, session: str, stream: str) -> None:
        """Delete the stream."""
        ...


class Kept(Protocol):
    """The storage quota of each owner; expired streams are subtracted by the store's clock."""

    async def held(self, owner: str) -> int:
        """Return the bytes stored for an owner, including overhead."""
        ...

    async def admit(self, owner: str) -> None:
        """Check the quota before new work that stores data for an owner.

        Raise KeptFull above the owner's share, StreamsFull if the store is nearly full.
        """
        ...

    def refused(self, owner: str) -> bool:
        """Return True if the last ``admit`` in this process refused the owner. Does not query Redis."""
        ...


Callback = Callable[[dict[str, Any]], None]


class Watch(Protocol):
    """A waiter for changes of (session, name), made by ``Hub.watch``; uses no task and no connection."""

    news: bool  # set to False before reading the store, so that no later wake-up is lost

    def seen(self, position: Position) -> None:
        """Record the position read, so that the slow poll wakes the waiter only for newer events."""
        ...

    def wake(self) -> None:
        """Set ``news`` and wake the waiter."""
        ...

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Return True as soon as ``news`` is set, False after ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """Stop watching; idempotent."""
        ...


class Hub(Protocol):
    """Wake-ups for readers of this process, and small broadcasts to all processes."""

    def watch(self, session: str, name: str) -> Watch:
        """Watch a stream or a pending request of a session."""
        ...

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        """Call ``callback(payload)`` on the event loop for each broadcast; return a function to unsubscribe.

        After a reconnection the payload is ``{"resync": True}``: broadcasts may be lost, so reload the stored
        state. A process receives its own broadcasts.
        """
        ...

    async def publish(self, topic: str, payload: dict[str, Any]) -> None:
        """Broadcast a JSON payload to all processes, at most once; store the state itself elsewhere."""
        ...

    def publish_now(self, topic: str, payload: dict[str, Any]) -> None:
        """Broadcast from a thread without an event loop (a Django view, a management command)."""
        ...


Broadcast = tuple[str, dict[str, Any]]  # a topic and the payload for all processes


class SessionStore(Protocol):
    """Cached sessions: flat fields that expire, and resource subscriptions."""

    async def create(self, session: str, fields: dict[str, str], ttl: int) -> None:
        """Store the fields; raise SessionEnded if the session was ended."""
        ...

    async def open(self, session: str, fields: dict[str, str], ttl: int, places: str, limit: int) -> bool:
        """Create a session in one of ``limit`` places (``Windows.acquire``); return False if none is free."""
        ...

    async def load(self, session: str) -> dict[str, str] | None:
        """Return the fields, None if unknown or expired; raise SessionEnded."""
        ...

    async def update(self, session: str, fields: dict[str, str], broadcast: Broadcast | None = None) -> bool:
        """Change fields of an active session; return False if it is unknown; raise SessionEnded.

        ``broadcast`` is published only if the session was ever touched: before that, only the process that
        created it knows it.
        """
        ...

    async def touch(self, session: str, ttl: int) -> bool:
        """Set the expiry of a loaded session to ``ttl`` seconds; return False if it is unknown or ended."""
        ...

    async def end(self, session: str, tombstone_ttl: int, broadcast: Broadcast | None = None) -> str:
        """End the session for all processes: delete keys and streams, wake readers, leave a tombstone.

        Return the field "principal"; "" if it is missing, or the session is unknown or ended.
        """
        ...

    async def end_unless(
        self, session: str, field: str, tombstone_ttl: int, places: str, broadcast: Broadcast
    ) -> bool:
        """End the session unless it has ``field``; return True if it was ended, False if it is unknown.

        Its place is released in every case. ``broadcast`` is published as by ``update``. Raise SessionEnded.
        """
        ...

    async def add_subscription(self, session: str, uri: str, limit: int) -> bool:
        """Subscribe the session to a resource; return False if it has ``limit`` others."""
        ...

    async def remove_subscription(self, session: str, uri: str) -> None:
        """Unsubscribe the session from a resource; idempotent."""
        ...

    async def subscribed(self, session: str, uris: Sequence[str]) -> list[str]:
        """Return the given resources that the session is subscribed to, in their order."""
        ...

    async def subscribers(self, uri: str) -> list[str]:
        """Return the active sessions subscribed to a resource."""
        ...


class RequestStore(Protocol):
    """Requests from server to client; any process may receive the answers."""

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """Expect one answer for at most ``ttl`` seconds."""
        ...

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        """Store an answer; return True only for the first one to an open request. Any string is a safe id."""
        ...

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        """Return the answer; None after ``timeout`` seconds, or immediately if the request is not open."""
        ...

    async def drop(self, session: str, request_id: str) -> None:
        """Stop expecting an answer."""
        ...


class Windows(Protocol):
    """Rate counters and leases of places, shared by all processes."""

    async def hit(self, key: str, limit: int, seconds: float) -> bool:
        """Count an event in a fixed window; return False if it already held ``limit``."""
        ...

    async def acquire(self, key: str, holder: str, limit: int, seconds: float) -> bool:
        """Take or renew one of ``limit`` places for ``seconds``; return False if others hold all."""
        ...

    async def release(self, key: str, holder: str) -> None:
        """Release a place; idempotent."""
        ...

    async def held(self, key: str) -> int:
        """Return the number of places in use."""
        ...


# Prefix, name, suffix, and the increment.
Increment = tuple[str, str, str, int]


class Totals(NamedTuple):
    """The totals of all processes, and the last reported state of each active process."""

    counts: dict[str, int]
    states: dict[str, bytes]


class MetricsStore(Protocol):
    """Counters of all processes; counts outlive the process that reported them."""

    async def add(self, process: str, number: int, increments: Sequence[Increment], state: bytes) -> None:
        """Store a report; it is counted if its ``number`` exceeds the last one of the process."""
        ...

    async def read(self) -> Totals:
        """Return the totals and the states of active processes."""
        ...

    async def memory(self) -> tuple[int, int] | None:
        """Return the bytes that Redis uses and its limit (0: no limit); None without Redis."""
        ...


class MessageQueue(Protocol):
    """Batches of the message log on their way to the database; a full queue refuses more."""

    async def push(self, batch: bytes) -> None:
        """Append a batch; raise StreamsFull if the queue is full, ValueError if the batch is too large."""
        ...

    async def read(self, after_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        """Return up to ``count`` batches after an id ("0" for the start), oldest first."""
        ...

    async def trim(self, through_id: str) -> None:
        """Delete the batches up to and including an id."""
        ...

    async def depth(self) -> int:
        """Return the number of pending batches."""
        ...

    async def full(self) -> bool:
        """Return True if the pending batches reach the limit of their number or size."""
        ...


class MessageTail(Protocol):
    """New batches of the message log, for viewers; reading does not remove them from the queue."""

    async def newest(self) -> str:
        """Return the id of the last added batch, even if it was trimmed since."""
        ...

    async def after(self, batch_id: str, count: int, seconds: float) -> Sequence[tuple[str, bytes]]:
        """Return up to ``count`` batches after an id as soon as one exists; none after ``seconds``.

        Trimmed batches are skipped silently: readers detect gaps by the counts in the batches.
        """
        ...

    async def close(self) -> None:
        """Release the connection; the next read opens a new one."""
        ...
