"""Readers of streams; a waiting reader uses no task."""

from __future__ import annotations

import asyncio

from mcp_app.streams.base import Event, EventLog, Hub, Position, StreamsUnavailable


class Reader:
    """A reader of one stream from a position on: first stored events, then new ones.

    ``finished``: no event follows those that ``next`` returned. ``gap``: some events were trimmed before they
    were read. ``cursor``: offset of the last returned event. Close it after use.
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
        # A stream read from its start was opened just now; any other may be about to expire.
        self._kept = asyncio.get_running_loop().time() if after == 0 else float("-inf")
        self._watch = hub.watch(session, stream)

    async def next(self, timeout: float) -> list[Event]:  # noqa: ASYNC109
        """Return the next events; [] after ``timeout`` seconds, after ``poke``, or at the end of the stream.

        While Redis is unreachable the reader waits and then continues. Raise StreamUnknown if the stream no
        longer exists (dropped, session ended, Redis emptied).
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
        """Continue from the start of a recreated stream; unread events of the old one count as a gap."""
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
        """Renew the expiry: a stream with a reader must not expire, even without new events."""
        if now - self._kept < self._log.limits.ttl / 4:
            return
        try:
            await self._log.keep(self.session, self._stream)
        except StreamsUnavailable:
            return
        self._kept = now

    def close(self) -> None:
        """Stop reading; the stream itself remains. Idempotent."""
        self._watch.close()
