"""An event log that is slow or unavailable on request; otherwise the in-memory twin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mcp_app.streams.base import Event, EventLog, Page, Position, StreamsError
from mcp_app.streams.gateway import Streams


class MoodyLog:
    """``EventLog`` that fails with ``faults``, one per write, and waits for ``gate`` before a write."""

    def __init__(self, inner: EventLog) -> None:
        self._inner = inner
        self.limits = inner.limits
        self.faults: list[StreamsError | None] = []
        self.gate: asyncio.Event | None = None
        self.streams: list[str] = []

    async def _mood(self, stream: str) -> None:
        self.streams.append(stream)
        if self.gate is not None:
            await self.gate.wait()
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            raise fault

    async def open(
        self, session: str, stream: str, *, owner: str = "", session_fields: dict[str, str] | None = None
    ) -> Position:
        await self._mood(stream)
        return await self._inner.open(session, stream, owner=owner, session_fields=session_fields)

    async def append(
        self,
        session: str,
        stream: str,
        data: bytes,
        *,
        kind: str = "message",
        fence: int = 0,
        owner: str = "",
    ) -> Position:
        await self._mood(stream)
        return await self._inner.append(session, stream, data, kind=kind, fence=fence, owner=owner)

    async def finish(
        self, session: str, stream: str, data: bytes, *, fence: int | None = None, owner: str = ""
    ) -> Position | None:
        await self._mood(stream)
        return await self._inner.finish(session, stream, data, fence=fence, owner=owner)

    async def read(self, session: str, stream: str, epoch: int, after: int, count: int = 200) -> Page:
        return await self._inner.read(session, stream, epoch, after, count)

    async def head(self, session: str, stream: str) -> Position | None:
        return await self._inner.head(session, stream)

    async def keep(self, session: str, stream: str, *, fence: int = 0) -> None:
        await self._inner.keep(session, stream)

    async def drop(self, session: str, stream: str) -> None:
        await self._inner.drop(session, stream)


def moody(streams: Streams) -> MoodyLog:
    """Put a moody log in front of the gateway's log."""
    streams.log = log = MoodyLog(streams.log)
    return log


async def events_of(streams: Streams, session: str, stream: str, epoch: int) -> list[Event]:
    """Return all events of a stream up to the final one."""
    reader = streams.reader(session, stream, epoch, 0)
    found: list[Event] = []
    try:
        async with asyncio.timeout(5):
            while not reader.finished:
                found += await reader.next(1)
    finally:
        reader.close()
    return found


def told(events: Iterable[Event]) -> list[tuple[str, bytes]]:
    """Return kind and data of events."""
    return [(event.kind, event.data) for event in events]
