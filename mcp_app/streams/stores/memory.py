"""The event log and the hub of a single process. They fulfil the same contracts as those on Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from mcp_app.protocol.principal_key import person_of
from mcp_app.streams.base import (
    ANSWER,
    CLOSE,
    FINAL,
    FOLLOW,
    LARGE_BYTES,
    MESSAGE,
    PAGE_EVENTS,
    Callback,
    Event,
    Page,
    Position,
    StreamFinished,
    StreamLimits,
    StreamUnknown,
)
from mcp_app.streams.connections.keys import stream_keys
from mcp_app.streams.stores.storage_quota import TOMBSTONE, bound_of, check, check_accepted
from mcp_app.streams.wakers import Waker, Watchers

Clock = Callable[[], float]
# The same values as in lua/stream.lua.
EVENT_COST, STREAM_COST = 64, 5_000
SWEEP_EVERY = 256  # writes between two sweeps of expired streams


class MemoryHub:
    """An implementation of ``base.Hub`` within one process."""

    def __init__(self) -> None:
        self.watchers = Watchers()
        self._callbacks: dict[str, list[Callback]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Store the event loop on which callbacks run."""
        self._loop = asyncio.get_running_loop()

    def watch(self, session: str, name: str) -> Waker:
        return self.watchers.add(session, name)

    def subscribe(self, topic: str, callback: Callback) -> Callable[[], None]:
        callbacks = self._callbacks.setdefault(topic, [])
        callbacks.append(callback)

        def stop() -> None:
            if callback in callbacks:
                callbacks.remove(callback)

        return stop

    async def publish(self, topic: str, payload: dict[str, Any]) -> None:
        self.publish_now(topic, payload)

    def publish_now(self, topic: str, payload: dict[str, Any]) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._deliver, topic, orjson.dumps(payload))

    def _deliver(self, topic: str, payload: bytes) -> None:
        for callback in tuple(self._callbacks.get(topic, ())):
            asyncio.get_running_loop().call_soon(callback, orjson.loads(payload))


@dataclass(slots=True)
class _Stream:
    epoch: int
    expires: float = 0.0
    last: int = 0
    size: int = 0
    fence: int = 0
    final: bool = False
    owner: str = ""
    answers: set[int] = field(default_factory=set)
    events: deque[Event] = field(default_factory=deque)

    @property
    def cost(self) -> int:
        """The approximate memory of the stream in bytes."""
        return STREAM_COST + sum(EVENT_COST + len(event.data) for event in self.events)


def _no_session_ended(_: str) -> bool:
    return False


def _nobody(_: str) -> str:
    return ""


def _none(_: str) -> int:
    return 0


def _no_fields(_: str, __: dict[str, str]) -> None:
    pass


class MemoryLog:
    """Implements ``base.EventLog`` and ``base.StorageQuota`` within one process.

    ``clock`` returns monotonic seconds.
    """

    def __init__(
        self,
        hub: MemoryHub,
        limits: StreamLimits,
        *,
        is_ended: Callable[[str], bool] = _no_session_ended,
        principal_of: Callable[[str], str] = _nobody,
        tombstones_of: Callable[[str], int] = _none,
        set_fields: Callable[[str, dict[str, str]], object] = _no_fields,
        clock: Clock = time.monotonic,
    ) -> None:
        self._hub, self._is_ended, self._clock = hub, is_ended, clock
        self._principal_of, self._tombstones_of = principal_of, tombstones_of
        self._set_fields = set_fields
        self.limits = limits
        self._streams: dict[str, dict[str, _Stream]] = {}
        self._writes = 0
        self._refused: set[str] = set()

    async def append(
        self, session: str, stream: str, data: bytes, *, kind: str = MESSAGE, fence: int = 0, owner: str = ""
    ) -> Position:
        if kind not in (MESSAGE, CLOSE, FOLLOW, ANSWER):
            raise ValueError("Only finish() may add the final event.")
        await self._check_room(owner, data)
        found = self._writable(session, stream, owner)
        if found.final:
            raise StreamFinished("The stream is final.")
        if fence < found.fence:
            raise StreamFinished("A newer attempt writes to this stream.")
        found.fence = fence
        return self._add(session, stream, found, kind, data)

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        if self._is_ended(session):
            return None
        await self._check_room(owner, data)
        found = self._writable(session, stream, owner)
        if found.final or (fence is not None and fence < found.fence):
            return None
        found.final = True
        found.fence = found.fence if fence is None else fence
        return self._add(session, stream, found, FINAL, data)

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        position = Position(self._writable(session, stream, owner).epoch, 0)
        if session_fields:
            self._set_fields(session, session_fields)
        return position

    async def head(self, session: str, stream: str) -> Position | None:
        found = self._find(session, stream)
        return Position(found.epoch, found.last) if found else None

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = PAGE_EVENTS) -> Page:
        found = self._find(session, stream)
        if found is None or found.epoch != epoch:
            raise StreamUnknown("There is no such stream, or not any more.")
        events = [event for event in found.events if event.offset > after][:count]
        if events:
            return Page(
                events, finished=events[-1].kind == FINAL, gap=events[-1].offset > after + len(events)
            )
        return Page(events, finished=found.final and after >= found.last, gap=False)

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        found = self._find(session, stream)
        if found is not None:
            found.expires = self._clock() + self.limits.ttl
            found.fence = max(found.fence, fence)

    async def drop(self, session: str, stream: str) -> None:
        if self._find(session, stream) is not None:
            self._forget(session, stream)
        self._hub.watchers.wake(session, stream)

    def drop_session(self, session: str) -> None:
        """Delete all streams of a session."""
        self._streams.pop(session, None)

    def _find(self, session: str, stream: str) -> _Stream | None:
        stream_keys(session, stream)  # refuses the same names as the store on Redis
        found = self._streams.get(session, {}).get(stream)
        if found is not None and found.expires <= self._clock():
            self._forget(session, stream)
            return None
        return found

    def _writable(self, session: str, stream: str, owner: str) -> _Stream:
        if self._is_ended(session):
            raise StreamFinished("The session ended.")
        found = self._find(session, stream)
        if found is None:
            self._sweep()
            found = _Stream(int.from_bytes(os.urandom(6)) | 1, owner=owner or self._principal_of(session))
            self._streams.setdefault(session, {})[stream] = found
        found.expires = self._clock() + self.limits.ttl
        return found

    def _add(self, session: str, stream: str, found: _Stream, kind: str, data: bytes) -> Position:
        found.last += 1
        found.events.append(Event(found.epoch, found.last, MESSAGE if kind == ANSWER else kind, data))
        if kind in (ANSWER, FINAL):
            found.answers.add(found.last)
        else:
            found.size += len(data)
        self._trim(found)
        self._hub.watchers.wake(session, stream)
        return Position(found.epoch, found.last)

    def _trim(self, found: _Stream) -> None:
        """Drop the oldest events except answers. The newest event is never dropped."""
        limits = self.limits
        while len(found.events) - len(found.answers) > limits.events or found.size > limits.event_bytes:
            oldest = next(event for event in found.events if event.offset not in found.answers)
            if oldest.offset == found.last:
                return
            found.size -= len(oldest.data)
            found.events.remove(oldest)

    async def held(self, owner: str) -> int:
        now = self._clock()
        kept = (found for streams in self._streams.values() for found in streams.values())
        person = person_of(owner)
        held = sum(each.cost for each in kept if person_of(each.owner) == person and each.expires > now)
        return held + TOMBSTONE * self._tombstones_of(person)

    async def admit(self, owner: str) -> None:
        """Check only the owner's quota, because there is no Redis whose memory could be full."""
        person = person_of(owner)
        self._refused.add(person)
        check(await self.held(person), bound_of(0, self.limits))
        self._refused.discard(person)

    async def _check_room(self, owner: str, data: bytes) -> None:
        if owner and len(data) > LARGE_BYTES:
            check_accepted(await self.held(owner) + len(data), bound_of(0, self.limits))

    def refused(self, owner: str) -> bool:
        return person_of(owner) in self._refused

    def _forget(self, session: str, stream: str) -> None:
        streams = self._streams[session]
        del streams[stream]
        if not streams:
            del self._streams[session]

    def _sweep(self) -> None:
        """Remove expired streams after every SWEEP_EVERY writes."""
        self._writes += 1
        if self._writes % SWEEP_EVERY:
            return
        now = self._clock()
        names = [(session, name) for session, streams in self._streams.items() for name in streams]
        for session, name in names:
            if self._streams[session][name].expires <= now:
                self._forget(session, name)
