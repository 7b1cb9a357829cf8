"""The output queue of one viewer. It is bounded, keeps the order, and counts skipped lines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import orjson

from mcp_app.console.line import Line
from mcp_app.message_log.log import PENDING_MARKS
from mcp_app.message_log.search.language import Search

FRAME_SECONDS = 0.1
FRAME_ROWS = 200
# A page displays at most this many lines, so more lines need not be queued.
MOST_WAITING = 1_000
# Maximum number of frames that the page has not confirmed. Above it, no frame is sent until the page confirms
# some.
MOST_FRAMES = 4
STALLED_SECONDS = 60.0


class ViewerStalled(Exception):
    """Raised if the page has not confirmed a frame for STALLED_SECONDS. The page may reconnect."""


class Viewer:
    """A viewer: its subscription, its pending output, and the frames that its page has drawn."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._session = ""
        self._sessions = False
        self._waiting: deque[Line] = deque()
        self._skipped = 0
        self._queued: dict[str, Any] = {}
        self._watching: str | None = None
        self._sent = self._drawn = 0
        self._due = asyncio.Event()

    def watch_messages(self, search: Search, session: str) -> None:
        """Subscribe to the messages that match a search."""
        self.watch_nothing()
        self._search, self._session = search, session

    def watch_sessions(self) -> None:
        """Subscribe to changes of sessions."""
        self.watch_nothing()
        self._sessions = True

    def watch_nothing(self) -> None:
        """End the subscription and discard the pending output."""
        self._search, self._session, self._sessions = None, "", False
        self._watching = None
        self._waiting.clear()
        self._skipped = 0
        self._queued = {}

    def offer(self, lines: Iterable[Line]) -> None:
        """Queue the lines that match the search. If there are too many, the oldest ones are skipped."""
        if self._search is None:
            return
        for line in lines:
            if self._session and line.session != self._session:
                continue
            if self._search.holds(line):
                if len(self._waiting) >= MOST_WAITING:
                    self._waiting.popleft()
                    self._skipped += 1
                self._waiting.append(line)
            elif line.replaces_mark and any(self._search.holds(line.mark(kind)) for kind in PENDING_MARKS):
                # The page shows the mark, which ends although the answer does not match the search.
                self.queue_data("answered", [line.row()])
        if self._waiting:
            self._due.set()

    def missed(self, count: int) -> None:
        """Count lost lines as skipped.

        The lines are unknown, so the count includes lines that do not match the search.
        """
        if self._search is not None and count:
            self._skipped += count
            self._due.set()

    def now_watching(self, what: str) -> None:
        """Confirm the subscription to the page.

        The page then loads the history. Later lines are sent live.
        """
        self._watching = what
        self.queue_data("watching", what)

    def read_again(self) -> None:
        """Ask a page of messages to reload its history.

        Used if lines were lost that can no longer be sent.
        """
        if self._search is not None and self._watching is not None:
            self.queue_data("watching", self._watching)

    def queue_data(self, kind: str, value: Any) -> None:
        """Queue data that is not a line.

        Lists and dictionaries are merged with pending data of the same kind. Other values replace it.
        """
        if isinstance(value, list):
            value = [*self._queued.get(kind, ()), *value][-MOST_WAITING:]
        elif isinstance(value, dict):
            value = {**self._queued.get(kind, {}), **value}
        self._queued[kind] = value
        self._due.set()

    @property
    def watches_sessions(self) -> bool:
        """True if the viewer shows the list of sessions."""
        return self._sessions

    @property
    def asks_for_client(self) -> bool:
        """True if the viewer's search needs the client name of each line."""
        return self._search is not None and self._search.asks_for_client

    @property
    def session(self) -> str:
        """The id of the session whose messages the viewer shows, or "" for all sessions."""
        return self._session

    def drawn(self, frame: int) -> None:
        """Record that the page has drawn all frames up to ``frame``."""
        if self._drawn < frame <= self._sent:
            self._drawn = frame
            self._due.set()

    async def next_frame(self) -> str:
        """Wait until there is output and the page can draw it, and return it as a frame.

        Raises ViewerStalled.
        """
        while True:
            await self._due.wait()
            self._due.clear()
            if self._sent - self._drawn >= MOST_FRAMES:
                await self._until_drawn()
            if self._waiting or self._queued or self._skipped:
                return self._frame()

    async def _until_drawn(self) -> None:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                while self._sent - self._drawn >= MOST_FRAMES:
                    await self._due.wait()
                    self._due.clear()
        except TimeoutError:
            raise ViewerStalled from None

    def _frame(self) -> str:
        self._sent += 1
        rows = [self._waiting.popleft().encoded for _ in range(min(len(self._waiting), FRAME_ROWS))]
        skipped, self._skipped = self._skipped, 0
        news, self._queued = self._queued, {}
        if self._waiting:
            self._due.set()
        head = orjson.dumps({"frame": self._sent, "skipped": skipped, **news})
        return (head[:-1] + b',"rows":[' + b",".join(rows) + b"]}").decode()
