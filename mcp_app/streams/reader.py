"""Owns a reader's place in a stream; must not know transports. A waiting reader costs no task."""

from __future__ import annotations

import asyncio

from mcp_app.streams.base import Event, EventLog, Hub, Position, StreamsUnavailable


class Reader:
    """Reads one stream from a position on, first what is stored and then what comes, by the same code.

    ``finished``: nothing follows what ``next`` has returned. ``gap``: some events were trimmed before they
    could be read. ``cursor``: offset of the last event returned. Close it when done.
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
        # A stream read from its beginning has just been opened; another may be about to expire.
        self._kept = asyncio.get_running_loop().time() if after == 0 else float("-inf")
        self._watch = hub.watch(session, stream)

    async def next(self, timeout: float) -> list[Event]:  # noqa: ASYNC109
        """The next events; [] after ``timeout`` seconds, after ``poke``, or when the stream is finished.

        While Redis is away this is silence, not an error: the reader goes on by itself. Raises StreamUnknown
        when the stream has vanished (dropped, session ended, Redis emptied).
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
        """Go on from the beginning of the stream's new life; what was not read of the old one is a gap."""
        self.epoch, self.cursor = epoch, 0
        self.finished, self.gap = False, True
        self._kept = asyncio.get_running_loop().time()

    def poke(self) -> None:
        """Have ``next`` return soon, also without events: its caller has something else to look at."""
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
        """A stream with a reader must not expire, however long nothing happens on it."""
        if now - self._kept < self._log.limits.ttl / 4:
            return
        try:
            await self._log.keep(self.session, self._stream)
        except StreamsUnavailable:
            return
        self._kept = now

    def close(self) -> None:
        """Stop reading; the stream stays. Safe to repeat."""
        self._watch.close()
