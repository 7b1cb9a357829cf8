"""The waiters of one process, by session and name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from mcp_app.streams.base import Position


def _nothing(_: str) -> None:
    pass


def _give_up(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)


class Waker:
    """A watcher of one name in a session: a flag and, during a wait, a future. Implements ``base.Watch``."""

    __slots__ = ("_future", "_watchers", "epoch", "name", "news", "offset", "session")

    def __init__(self, watchers: Watchers, session: str, name: str) -> None:
        self._watchers = watchers
        self.session = session
        self.name = name
        self.epoch = self.offset = -1
        self.news = False
        self._future: asyncio.Future[bool] | None = None

    def seen(self, position: Position) -> None:
        """Record the position that the watcher has read."""
        self.epoch, self.offset = position

    def behind(self, head: Position | None) -> bool:
        """Return True if ``head`` is not the position that was read, or if the stream is missing."""
        return head is None or head.epoch != self.epoch or head.offset != self.offset

    def wake(self) -> None:
        """Set ``news`` and wake the waiter."""
        self.news = True
        if self._future is not None and not self._future.done():
            self._future.set_result(True)

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109
        """Return True as soon as ``news`` is set, or False after ``timeout`` seconds."""
        if self.news:
            return True
        loop = asyncio.get_running_loop()
        self._future = future = loop.create_future()
        handle = loop.call_later(timeout, _give_up, future)
        try:
            return bool(await future)
        finally:
            handle.cancel()
            self._future = None

    def close(self) -> None:
        """Stop watching. Idempotent."""
        self._watchers.remove(self)


class Watchers:
    """All waiters of the process.

    ``on_last`` is called with the id of a session that loses its last waiter.
    """

    def __init__(self, on_last: Callable[[str], None] = _nothing) -> None:
        self._by_session: dict[str, list[Waker]] = {}
        self._on_last = on_last

    def __iter__(self) -> Iterator[Waker]:
        return iter([waiter for waiters in self._by_session.values() for waiter in waiters])

    def add(self, session: str, name: str) -> Waker:
        """Create a waiter."""
        waiter = Waker(self, session, name)
        self._by_session.setdefault(session, []).append(waiter)
        return waiter

    def remove(self, waiter: Waker) -> None:
        """Remove a waiter. Idempotent."""
        waiters = self._by_session.get(waiter.session, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._by_session[waiter.session]
                self._on_last(waiter.session)

    def has(self, session: str) -> bool:
        """Return True if the session has a watcher."""
        return session in self._by_session

    def wake(self, session: str, name: str) -> None:
        """Wake the watchers of one stream or request."""
        for waiter in self._by_session.get(session, ()):
            if waiter.name == name:
                waiter.wake()

    def wake_session(self, session: str) -> None:
        """Wake all watchers of a session."""
        for waiter in self._by_session.get(session, ()):
            waiter.wake()

    def wake_all(self) -> None:
        """Wake all watchers, because messages may have been lost."""
        for waiter in self:
            waiter.wake()
