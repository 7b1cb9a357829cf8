"""Readers of event streams. A reader needs no task while it waits."""

from __future__ import annotations

import asyncio

from mcp_app.streams.base import Event, EventLog, Hub, Position, StreamsUnavailable


class Reader:
    """A reader of one stream from a position on: it returns first stored events and then new events.

    ``finished`` is True if no event follows those that ``next`` has returned. ``gap`` is True if events
    were trimmed before they were read. ``cursor`` is the offset of the last returned event. The reader must
    be closed after use.
    """

    __slots__ = (
        "_kept",
        "_log",
        "_poked",
        "_stream",
        "_watch",
        "cursor",
        "epoch",
        "finished",
        "gap",
        "session",
    )

    def __init__(self, log: EventLog, hub: Hub, session: str, stream: str, epoch: int, after: int) -> None:
        self._log = log
        self.session = session
        self._stream = stream
        self.epoch = epoch
        self.cursor = after
        self.finished = False
        self.gap = False
        self._poked = False
        # A stream that is read from its start was opened just now. Any other stream may be about to expire.
        self._kept = asyncio.get_running_loop().time() if after == 0 else float("-inf")
        self._watch = hub.watch(session, stream)

    async def next(self, timeout: float) -> list[Event]:  # noqa: ASYNC109
        """Return the next events. Return [] after ``timeout`` seconds, after ``poke``, or at the end.

        While Redis is unreachable, the reader waits and then continues. Raise StreamUnknown if the stream
        no longer exists because it was dropped, its session ended, or Redis was emptied.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self.finished:
            self._watch.news = False
            events = await self._read()
            if events or self.finished:
                return events
            if self._poked:
                self._poked = False
                return []
            await self._keep(loop.time())
            if not await self._watch.wait(max(0.0, deadline - loop.time())):
                break
        return []

    def restart(self, epoch: int) -> None:
        """Continue at the start of a recreated stream. Unread events of the earlier stream count as a gap."""
        self.epoch, self.cursor = epoch, 0
        self.finished, self.gap = False, True
        self._kept = asyncio.get_running_loop().time()

    def poke(self) -> None:
        """Make ``next`` return soon, even without events."""
        self._poked = True
        self._watch.wake()

    async def _read(self) -> list[Event]:
        try:
            page = await self._log.read(self.session, self._stream, self.epoch, self.cursor)
        except StreamsUnavailable:
            return []
        if page.events:
            self.cursor = page.events[-1].offset
        self._watch.seen(Position(self.epoch, self.cursor))
        self.gap = self.gap or page.gap
        self.finished = page.finished
        return page.events

    async def _keep(self, now: float) -> None:
        """Extend the stream's lifetime: it must not expire while it has a reader, even without events."""
        if now - self._kept < self._log.limits.ttl / 4:
            return
        try:
            await self._log.keep(self.session, self._stream)
        except StreamsUnavailable:
            return
        self._kept = now

    def close(self) -> None:
        """Stop reading. The stream itself is not deleted. Idempotent."""
        self._watch.close()
