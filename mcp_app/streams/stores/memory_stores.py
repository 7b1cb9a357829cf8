"""The session, request, window and log stores of a single process, with the same contracts as on Redis."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mcp_app.protocol.principal_key import person_of
from mcp_app.streams.base import BadName, Broadcast, SessionEnded, StreamLimits, StreamsFull
from mcp_app.streams.connections.keys import request_keys, session_keys
from mcp_app.streams.stores.memory import Clock, MemoryHub
from mcp_app.streams.stores.message_queue import check_size

SWEEP_EVERY = 256


@dataclass(slots=True)
class _Session:
    expires: float
    fields: dict[str, str] | None  # None: the session has ended
    subscriptions: set[str]
    touched: bool = False


class MemorySessions:
    """An implementation of ``base.SessionStore`` in one process.

    ``on_end`` is called for each ended session.
    """

    def __init__(
        self, hub: MemoryHub, limits: StreamLimits, windows: MemoryWindows, *, clock: Clock = time.monotonic
    ) -> None:
        self._hub, self._limits, self._windows, self._clock = hub, limits, windows, clock
        self._sessions: dict[str, _Session] = {}
        self._created = 0
        self._tombstones: dict[str, deque[float]] = {}
        self.on_end: Sequence[Callable[[str], None]] = ()

    async def create(self, session: str, fields: dict[str, str], ttl: int) -> None:
        session_keys(session)
        _check(fields)
        if self.is_ended(session):
            raise SessionEnded("The session was ended.")
        self._sweep()
        self._sessions[session] = _Session(self._clock() + ttl, dict(fields), set())

    async def open(self, session: str, fields: dict[str, str], ttl: int, places: str, limit: int) -> bool:
        if self.is_ended(session):
            raise SessionEnded("The session was ended.")
        if not await self._windows.acquire(places, session, limit, ttl):
            return False
        await self.create(session, fields, ttl)
        return True

    async def load(self, session: str) -> dict[str, str] | None:
        found = self._living(session)
        return dict(found.fields or {}) if found else None

    async def update(self, session: str, fields: dict[str, str], broadcast: Broadcast | None = None) -> bool:
        done = self.set_fields(session, fields)
        if done and broadcast is not None and self._sessions[session].touched:
            self._hub.publish_now(*broadcast)
        return done

    def set_fields(self, session: str, fields: dict[str, str]) -> bool:
        """Update fields as ``update`` does, but synchronously and without a broadcast."""
        _check(fields)
        found = self._living(session)
        if found is not None and found.fields is not None:
            found.fields.update(fields)
        return found is not None

    async def touch(self, session: str, ttl: int) -> bool:
        if self.is_ended(session):
            return False
        found = self._find(session)
        if found is not None:
            found.expires, found.touched = self._clock() + ttl, True
        return found is not None

    async def end(self, session: str, tombstone_ttl: int, broadcast: Broadcast | None = None) -> str:
        if broadcast is not None:
            self._hub.publish_now(*broadcast)
        ends = self._clock() + tombstone_ttl
        principal = self.principal_of(session)
        if principal:
            self._tombstones.setdefault(person_of(principal), deque()).append(ends)
        self._sessions[session] = _Session(ends, None, set())
        for forget in self.on_end:
            forget(session)
        self._hub.watchers.wake_session(session)
        return principal

    async def end_unless(
        self, session: str, field: str, tombstone_ttl: int, places: str, broadcast: Broadcast
    ) -> bool:
        await self._windows.release(places, session)
        found = self._living(session)
        if found is None or field in (found.fields or {}):
            return False
        await self.end(session, tombstone_ttl, broadcast if found.touched else None)
        return True

    async def add_subscription(self, session: str, uri: str, limit: int) -> bool:
        found = self._find(session)
        if found is None or found.fields is None:
            return False
        if uri not in found.subscriptions and len(found.subscriptions) >= limit:
            return False
        found.subscriptions.add(uri)
        return True

    async def remove_subscription(self, session: str, uri: str) -> None:
        found = self._find(session)
        if found is not None:
            found.subscriptions.discard(uri)

    async def subscribed(self, session: str, uris: Sequence[str]) -> list[str]:
        found = self._find(session)
        return [] if found is None else [uri for uri in uris if uri in found.subscriptions]

    async def subscribers(self, uri: str) -> list[str]:
        return sorted(
            session
            for session in tuple(self._sessions)
            if (found := self._find(session)) is not None and uri in found.subscriptions
        )

    def is_ended(self, session: str) -> bool:
        """Return True if a tombstone of the session is stored."""
        found = self._find(session)
        return found is not None and found.fields is None

    def tombstones_of(self, person: str) -> int:
        """Return the number of a person's ended sessions whose tombstones are still stored."""
        found, now = self._tombstones.get(person, deque()), self._clock()
        while found and found[0] <= now:
            found.popleft()
        if not found:
            self._tombstones.pop(person, None)
        return len(found)

    def principal_of(self, session: str) -> str:
        """Return the owner of an active session, or "" if the session is unknown."""
        found = self._find(session)
        return (found.fields or {}).get("principal", "") if found is not None else ""

    def _find(self, session: str) -> _Session | None:
        found = self._sessions.get(session)
        if found is not None and found.expires <= self._clock():
            del self._sessions[session]
            return None
        return found

    def _living(self, session: str) -> _Session | None:
        found = self._find(session)
        if found is not None and found.fields is None:
            raise SessionEnded("The session was ended.")
        return found

    def _sweep(self) -> None:
        self._created += 1
        if self._created % SWEEP_EVERY == 0:
            for session in tuple(self._sessions):
                self._find(session)


def _check(fields: dict[str, str]) -> None:
    if not fields or "ended" in fields:
        raise ValueError("A session needs at least one field, and none may be called 'ended'.")


@dataclass(slots=True)
class _Request:
    expires: float
    answer: bytes | None = None


class MemoryRequests:
    """An implementation of ``base.RequestStore`` within one process."""

    def __init__(
        self, hub: MemoryHub, *, is_ended: Callable[[str], bool], clock: Clock = time.monotonic
    ) -> None:
        self._hub, self._is_ended, self._clock = hub, is_ended, clock
        self._requests: dict[str, dict[str, _Request]] = {}

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """Expect an answer. Raise SessionEnded."""
        request_keys(session, request_id)
        if self._is_ended(session):
            raise SessionEnded("The session was ended.")
        requests = self._requests.setdefault(session, {})
        for expired in [each for each, found in requests.items() if found.expires <= self._clock()]:
            del requests[expired]
        requests[request_id] = _Request(self._clock() + ttl)

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        try:
            found = self._find(session, request_id)
        except BadName:
            return False
        if found is None or found.answer is not None:
            return False
        found.answer = payload
        self._hub.watchers.wake(session, f"request:{request_id}")
        return True

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        watch = self._hub.watch(session, f"request:{request_id}")
        try:
            while True:
                watch.news = False
                found = self._find(session, request_id)
                left = deadline - loop.time()
                if found is None or found.answer is not None or left <= 0:
                    return found.answer if found else None
                await watch.wait(min(left, max(0.01, found.expires - self._clock())))
        finally:
            watch.close()

    async def drop(self, session: str, request_id: str) -> None:
        requests = self._requests.get(session, {})
        requests.pop(request_id, None)
        if not requests:
            self._requests.pop(session, None)
        self._hub.watchers.wake(session, f"request:{request_id}")

    def drop_session(self, session: str) -> None:
        """Delete all requests of a session."""
        self._requests.pop(session, None)

    def _find(self, session: str, request_id: str) -> _Request | None:
        request_keys(session, request_id)
        found = self._requests.get(session, {}).get(request_id)
        return found if found is not None and found.expires > self._clock() else None


class MemoryWindows:
    """An implementation of ``base.Windows`` within one process."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._windows: dict[str, tuple[float, int]] = {}
        self._places: dict[str, dict[str, float]] = {}

    async def hit(self, key: str, limit: int, seconds: float) -> bool:
        now = self._clock()
        ends, count = self._windows.get(key, (0.0, 0))
        if ends <= now:
            self._windows = {name: window for name, window in self._windows.items() if window[0] > now}
            ends, count = now + seconds, 0
        self._windows[key] = (ends, count + 1)
        return count < limit

    async def acquire(self, key: str, holder: str, limit: int, seconds: float) -> bool:
        places = self._living(key)
        if holder not in places and len(places) >= limit:
            return False
        places[holder] = self._clock() + seconds
        self._places[key] = places
        return True

    async def release(self, key: str, holder: str) -> None:
        self._living(key).pop(holder, None)

    async def held(self, key: str) -> int:
        return len(self._living(key))

    async def holders(self, key: str) -> list[str]:
        return list(self._living(key))

    def _living(self, key: str) -> dict[str, float]:
        now = self._clock()
        places = {holder: ends for holder, ends in self._places.pop(key, {}).items() if ends > now}
        if places:
            self._places[key] = places
        return places


class MemoryMessages:
    """An implementation of ``base.MessageQueue`` within one process."""

    def __init__(self, limits: StreamLimits) -> None:
        self._limits = limits
        self._batches: deque[tuple[int, bytes]] = deque()
        self.last = 0
        self.grown = asyncio.Event()  # set with each batch, and then replaced

    async def push(self, batch: bytes) -> None:
        check_size(batch, self._limits)
        if await self.full():
            raise StreamsFull("The message log waits for a worker to write it.")
        self.last += 1
        self._batches.append((self.last, batch))
        self.grown.set()
        self.grown = asyncio.Event()

    async def read(self, after_id: str, count: int) -> Sequence[tuple[str, bytes]]:
        after = _number(after_id)
        return [(f"{number}-0", batch) for number, batch in self._batches if number > after][:count]

    async def trim(self, through_id: str) -> None:
        through = _number(through_id)
        while self._batches and self._batches[0][0] <= through:
            self._batches.popleft()

    async def depth(self) -> int:
        return len(self._batches)

    async def full(self) -> bool:
        return len(self._batches) >= self._limits.log_batches


class MemoryTail:
    """An implementation of ``base.MessageTail`` within one process."""

    def __init__(self, messages: MemoryMessages) -> None:
        self._messages = messages

    async def newest(self) -> str:
        return f"{self._messages.last}-0"

    async def after(self, batch_id: str, count: int, seconds: float) -> Sequence[tuple[str, bytes]]:
        grown = self._messages.grown
        found = await self._messages.read(batch_id, count)
        if not found:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await grown.wait()
            found = await self._messages.read(batch_id, count)
        return found

    async def close(self) -> None:
        """Do nothing: the tail has no connection."""


def _number(entry_id: str) -> int:
    return int(entry_id.partition("-")[0] or 0)
