"""Types and contracts of event streams. They do not depend on the storage of the events.

A stream is identified by a session id and a stream name, and contains numbered events. A stream gets a
random epoch whenever it is created. Therefore a position in a deleted stream never matches a new stream of
the same name. Offset 0 is the position before the first event (also used for the priming event, which is
never stored). The first event has the offset 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

# Events per read. One page stays in memory for a client that stops reading (R16), and messages may be long.
PAGE_EVENTS: Final = 16

MESSAGE, CLOSE, FOLLOW, FINAL = "message", "close", "follow", "final"
# The kind of an answer that is followed by further answers in its stream. Readers get it as a message.
ANSWER: Final = "answer"


# An event larger than this must fit into the quota when it is written. For smaller events, the check at the
# acceptance of their call is sufficient.
LARGE_BYTES = 65_536


class StreamsError(Exception):
    """An operation on the event streams failed."""


class StreamsUnavailable(StreamsError):
    """Redis is unreachable or does not answer. The command may have been executed or not."""


class StreamsFull(StreamsUnavailable):
    """Redis has reached its memory limit and refuses writes."""


class QuotaExceeded(StreamsError):
    """The owner's storage quota is used up, or Redis lacks memory for a large result of accepted work."""


class StreamUnknown(StreamsError):
    """The stream does not exist, or was created again after the position was issued."""


class StreamFinished(StreamsError):
    """The stream accepts no events: it is final, its session has ended, or a newer attempt writes to it."""


class SessionEnded(StreamsError):
    """The session has ended and cannot be created again."""


class BadName(StreamsError, ValueError):
    """A session id, stream name or request id has invalid characters or an invalid length."""


class Position(NamedTuple):
    """A position in the stream of one epoch."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class Event:
    """A stored event.

    ``kind`` is "message", "close", "follow" or "final". A "close" event closes the connection once the
    client has received ``data``, a retry time in milliseconds. The stream itself continues. The ``data`` of
    a "follow" event is the name of another stream whose events are inserted here. A "final" event is the
    last one of its stream, and its ``data`` may be empty.
    """

    epoch: int
    offset: int
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """Events after a position. ``finished``: no event follows them. ``gap``: earlier events were trimmed."""

    events: list[Event]
    finished: bool
    gap: bool


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits for stored data. Times are in seconds, sizes in bytes. 0 means no limit.

    ``kept_bytes`` and ``kept_percent`` (of Redis' memory limit) limit the data stored for one owner. If
    Redis uses more than ``full_percent`` of its memory limit, new work is refused for all owners.
    ``log_percent`` of the memory limit is available for pending batches of the message log.
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
    """A log of numbered events that is bounded and expires.

    Methods raise StreamsUnavailable during an outage.
    """

    limits: StreamLimits

    async def append(
        self, session: str, stream: str, data: bytes, *, kind: str = MESSAGE, fence: int = 0, owner: str = ""
    ) -> Position:
        """Append an event and wake the stream's readers. Create the stream if necessary.

        An ANSWER is never trimmed. A new stream counts toward the quota of ``owner``, or of its session's
        principal if ``owner`` is empty. ``fence`` is the number of the attempt that writes: after a write
        with a higher fence, writes with a lower fence are refused. Raise StreamFinished (also if the
        session has ended), StreamsFull, or QuotaExceeded if more than LARGE_BYTES do not fit into the owner's
        quota.
        """
        ...

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        """Append the final event once, even if the store is full. Create the stream if necessary.

        Return None if the stream is already final, if the session has ended, or if ``fence`` is older than
        the stored fence. Raise QuotaExceeded as ``append`` does.
        """
        ...

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        """Create the stream if necessary, and return the position before its first event (offset 0).

        ``session_fields`` are set in the session atomically with this, as ``SessionStore.update`` does.
        Raise StreamFinished if the session has ended.
        """
        ...

    async def head(self, session: str, stream: str) -> Position | None:
        """Return the newest event's position (offset 0 without events), or None for an unknown stream."""
        ...

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = PAGE_EVENTS) -> Page:
        """Return up to ``count`` events after an offset. Raise StreamUnknown if ``epoch`` does not match."""
        ...

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        """Restart the stream's expiry time. Refuse later writes of attempts lower than ``fence``."""
        ...

    async def drop(self, session: str, stream: str) -> None:
        """Delete the stream."""
        ...


class StorageQuota(Protocol):
    """The storage quotas of owners. Streams that have expired by the store's clock no longer count."""

    async def held(self, owner: str) -> int:
        """Return the bytes stored for an owner, including the overhead of storage."""
        ...

    async def admit(self, owner: str) -> None:
        """Check the quota before new work that will store data for an owner.

        Raise QuotaExceeded if the owner's quota is used up, and StreamsFull if the store is nearly full.
        """
        ...

    def refused(self, owner: str) -> bool:
        """Return True if the last ``admit`` in this process refused the owner. This does not query Redis."""
        ...


Callback = Callable[[dict[str, Any]], None]


class Watch(Protocol):
    """A waiter for changes of a name in a session, created by ``Hub.watch``.

    It needs no task and no connection.
    """

    news: bool  # set to False before the store is read, so that no wake-up after that is lost

    def seen(self, position: Position) -> None:
        """Record the position that was read. The slow poll then wakes the waiter only for newer events."""
        ...

    def wake(self) -> None:
        """Set ``news`` and wake the waiter."""
        ...

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Return True as soon as ``news`` is set, or False after ``timeout`` seconds."""
        ...

    def close(self) -> None:
        """Stop watching. Idempotent."""
        ...


class Hub(Protocol):
    """Wake-ups for the readers in this process, and small broadcasts to all processes."""

    def watch(self, session: str, name: str) -> Watch:
        """Watch a stream or a pending request of a session."""
        ...

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        """Call ``callback(payload)`` on the event loop for each broadcast.

        Return a function that unsubscribes. After a reconnection the payload is ``{"resync": True}``.
        Broadcasts may have been lost, so the callback must load the stored state again. A process also
        receives its own broadcasts.
        """
        ...

    async def publish(self, topic: str, payload: dict[str, Any]) -> None:
        """Broadcast a JSON payload to all processes, at most once. State itself must be stored elsewhere."""
        ...

    def publish_now(self, topic: str, payload: dict[str, Any]) -> None:
        """Broadcast from a thread without an event loop, such as a Django view or a management command."""
        ...


Broadcast = tuple[str, dict[str, Any]]  # a topic and the payload for all processes


class SessionStore(Protocol):
    """Cached sessions: flat fields that expire, and the resources to which each session is subscribed."""

    async def create(self, session: str, fields: dict[str, str], ttl: int) -> None:
        """Store the fields. Raise SessionEnded if the session has ended."""
        ...

    async def open(self, session: str, fields: dict[str, str], ttl: int, places: str, limit: int) -> bool:
        """Create a session in one of ``limit`` places (``Windows.acquire``).

        Return False if no place is free.
        """
        ...

    async def load(self, session: str) -> dict[str, str] | None:
        """Return the fields, or None if the session is unknown or has expired. Raise SessionEnded."""
        ...

    async def update(self, session: str, fields: dict[str, str], broadcast: Broadcast | None = None) -> bool:
        """Change fields of an active session. Return False if it is unknown. Raise SessionEnded.

        ``broadcast`` is published only if the session has been touched. Until then, only the process that
        created the session knows it.
        """
        ...

    async def touch(self, session: str, ttl: int) -> bool:
        """Set the expiry of a loaded session to ``ttl`` seconds.

        Return False if it is unknown or has ended.
        """
        ...

    async def end(self, session: str, tombstone_ttl: int, broadcast: Broadcast | None = None) -> str:
        """End the session for all processes: delete its keys and streams, wake readers, store a tombstone.

        Return its field "principal", or "" if the field is missing or the session is unknown or has ended.
        """
        ...

    async def end_unless(
        self, session: str, field: str, tombstone_ttl: int, places: str, broadcast: Broadcast
    ) -> bool:
        """End the session unless it has the field ``field``.

        Return True if it was ended, False if it is unknown. Its place is released in every case.
        ``broadcast`` is published under the same condition as in ``update``. Raise SessionEnded.
        """
        ...

    async def add_subscription(self, session: str, uri: str, limit: int) -> bool:
        """Subscribe the session to a resource.

        Return False if it is subscribed to ``limit`` other resources.
        """
        ...

    async def remove_subscription(self, session: str, uri: str) -> None:
        """Unsubscribe the session from a resource. Idempotent."""
        ...

    async def subscribed(self, session: str, uris: Sequence[str]) -> list[str]:
        """Return the given resources to which the session is subscribed, in the given order."""
        ...

    async def subscribers(self, uri: str) -> list[str]:
        """Return the active sessions that are subscribed to a resource."""
        ...


class RequestStore(Protocol):
    """Requests from the server to clients. Any process may receive the answers."""

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """Expect one answer for at most ``ttl`` seconds."""
        ...

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        """Store an answer. Return True only for the first answer to an open request.

        ``request_id`` may be any text.
        """
        ...

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        """Return the answer. Return None after ``timeout`` seconds, or at once if the request is not open."""
        ...

    async def drop(self, session: str, request_id: str) -> None:
        """Stop waiting for an answer."""
        ...


class Windows(Protocol):
    """Rate counters, and places that are taken for a limited time. All processes share both."""

    async def hit(self, key: str, limit: int, seconds: float) -> bool:
        """Count an event in a fixed window. Return False if the window already contains ``limit`` events."""
        ...

    async def acquire(self, key: str, holder: str, limit: int, seconds: float) -> bool:
        """Take or renew one of ``limit`` places for ``seconds``. Return False if others hold all places."""
        ...

    async def release(self, key: str, holder: str) -> None:
        """Release a place. Idempotent."""
        ...

    async def held(self, key: str) -> int:
        """Return the number of places in use."""
        ...

    async def holders(self, key: str) -> list[str]:
        """Return the holders of places, including those whose lease has just expired."""
        ...


class Lease(NamedTuple):
    """Calls that a process may admit, or the microseconds until one may be admitted."""

    calls: int
    wait: int


class Spending(NamedTuple):
    """The outcome of spending units of a budget, and the units spent in the period.

    ``is_unknown`` is True if the store has no count and needs the units that are stored elsewhere.
    """

    fits: bool
    units: int
    is_unknown: bool = False


class LimitStore(Protocol):
    """Rates and budgets that all processes share."""

    async def lease(self, key: str, emission: int, burst: int, calls: int) -> Lease:
        """Take up to ``calls`` calls from a rate of one call in ``emission`` microseconds (GCRA)."""
        ...

    async def spend(
        self, key: str, units: int, budget: int | None, seconds: float, stored: int | None = None
    ) -> Spending:
        """Spend units of a budget, which is None if the units are only counted.

        The count is kept for ``seconds``. A missing count begins with ``stored``.
        """
        ...

    async def forget(self, keys: Sequence[str]) -> None:
        """Remove counts."""
        ...


# An increment of a counter: prefix, name, suffix, and the number to add.
Increment = tuple[str, str, str, int]


class Totals(NamedTuple):
    """The sums over all processes, and the last reported state of each active process."""

    counts: dict[str, int]
    states: dict[str, bytes]


class MetricsStore(Protocol):
    """Counters of all processes. A count stays when the process that reported it ends."""

    async def add(self, process: str, number: int, increments: Sequence[Increment], state: bytes) -> None:
        """Store a report.

        It counts only if its ``number`` is higher than that of the process's last report.
        """
        ...

    async def read(self) -> Totals:
        """Return the sums and the states of active processes."""
        ...

    async def memory(self) -> tuple[int, int] | None:
        """Return how many bytes Redis uses, and its limit (0: no limit). Return None without Redis."""
        ...


class MessageQueue(Protocol):
    """Batches of the message log on their way to the database.

    When the queue is full, it refuses more batches.
    """

    async def push(self, batch: bytes) -> None:
        """Append a batch.

        Raise StreamsFull if the queue is full, and ValueError if the batch is too large.
        """
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
        """Return True if the pending batches have reached the limit of their number or size."""
        ...


class MessageTail(Protocol):
    """New batches of the message log, for viewers. Reading does not remove them from the queue."""

    async def newest(self) -> str:
        """Return the id of the batch added last, even if it has been trimmed since."""
        ...

    async def after(self, batch_id: str, count: int, seconds: float) -> Sequence[tuple[str, bytes]]:
        """Return up to ``count`` batches after an id as soon as there is one, or none after ``seconds``.

        Trimmed batches are skipped without notice. Readers detect gaps by the counts inside the batches.
        """
        ...

    async def close(self) -> None:
        """Close the connection. The next read opens a new one."""
        ...
