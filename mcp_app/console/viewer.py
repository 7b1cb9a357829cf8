"""Owns what one watching person has yet to be sent: bounded, in order, with a count of what was skipped."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import orjson

from mcp_app.console.line import Line
from mcp_app.message_log.search.language import Search

FRAME_SECONDS = 0.1
FRAME_ROWS = 200
# More than a page keeps is not worth keeping for it.
MOST_WAITING = 1_000
# Frames on their way: a page that has not said it has drawn them gets no more.
MOST_FRAMES = 4
STALLED_SECONDS = 60.0


class ViewerStalled(Exception):
    """The page has not answered for a long time; it may connect again."""


class Viewer:
    """One connection: what it watches, what waits for it, and how fast it draws."""

    def __init__(self) -> None:
        self._search: Search | None = None
        self._session = ""
        self._sessions = False
        self._waiting: deque[Line] = deque()
        self._skipped = 0
        self._news: dict[str, Any] = {}
        self._watching: str | None = None
        self._sent = self._drawn = 0
        self._due = asyncio.Event()

    def watch_messages(self, search: Search, session: str) -> None:
        """Show these messages from now on."""
        self.watch_nothing()
        self._search, self._session = search, session

    def watch_sessions(self) -> None:
        """Show what becomes of sessions from now on."""
        self.watch_nothing()
        self._sessions = True

    def watch_nothing(self) -> None:
        """Stop showing the current subject; drop what waits to be sent of it."""
        self._search, self._session, self._sessions = None, "", False
        self._watching = None
        self._waiting.clear()
        self._skipped = 0
        self._news = {}

    def offer(self, lines: Iterable[Line]) -> None:
        """Lines that came; those that are looked for wait to be sent, the newest ones when there are many."""
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
        if self._waiting:
            self._due.set()

    def missed(self, count: int) -> None:
        """So many lines came and were not seen by this process; which of them were looked for is unknown."""
        if self._search is not None and count:
            self._skipped += count
            self._due.set()

    def now_watching(self, what: str) -> None:
        """The page reads the history when it has this: everything later comes by itself."""
        self._watching = what
        self.tell("watching", what)

    def read_again(self) -> None:
        """Something came that cannot be handed on any more: a page of messages finds it in the history."""
        if self._search is not None and self._watching is not None:
            self.tell("watching", self._watching)

    def tell(self, kind: str, value: Any) -> None:
        """Something besides lines; a newer value takes the place of one of its kind that waits."""
        if isinstance(value, list):
            value = [*self._news.get(kind, ()), *value][-MOST_WAITING:]
        elif isinstance(value, dict):
            value = {**self._news.get(kind, {}), **value}
        self._news[kind] = value
        self._due.set()

    @property
    def watches_sessions(self) -> bool:
        """Whether it shows the list of sessions."""
        return self._sessions

    @property
    def asks_for_client(self) -> bool:
        """Whether its lines must say which client they are of."""
        return self._search is not None and self._search.asks_for_client

    @property
    def session(self) -> str:
        """The one session it shows; "" for all."""
        return self._session

    def drawn(self, frame: int) -> None:
        """The page has drawn everything up to a frame."""
        if self._drawn < frame <= self._sent:
            self._drawn = frame
            self._due.set()

    async def next_frame(self) -> str:
        """The next frame, as soon as there is something in it and the page can take it.

        Raises ViewerStalled.
        """
        while True:
            await self._due.wait()
            self._due.clear()
            if self._sent - self._drawn >= MOST_FRAMES:
                await self._until_drawn()
            if self._waiting or self._news or self._skipped:
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
        news, self._news = self._news, {}
        if self._waiting:
            self._due.set()
        head = orjson.dumps({"frame": self._sent, "skipped": skipped, **news})
        return (head[:-1] + b',"rows":[' + b",".join(rows) + b"]}").decode()
