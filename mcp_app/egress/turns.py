"""Turns of callers at one origin, which bound the requests to it at once."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """At most ``most`` turns at once, and at most half of them for one caller.

    Waiting callers get turns in rotation, so that a caller with many requests delays others by one request.
    A caller without a name is the installation itself, which may have every turn.
    """

    __slots__ = ("_most", "_running", "_share", "_total", "_waiting")

    def __init__(self, most: int) -> None:
        self._most, self._share, self._total = most, max(most // 2, 1), 0
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def is_idle(self) -> bool:
        """True if there is no turn and no waiting caller."""
        return not self._total and not self._waiting

    async def acquire(self, caller: str) -> None:
        """Wait for a turn, which must be released."""
        # A caller waits only if it cannot have a turn, so a new one passes by no waiting caller who can.
        if self._may_have(caller):
            self._start(caller)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(caller, turn)
            else:
                # The turn was given before the cancellation arrived.
                self.release(caller)
            raise

    def release(self, caller: str) -> None:
        """End a turn and give it to the next caller."""
        self._total -= 1
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        for following in list(self._waiting):
            if self._may_have(following) and (turn := self._next(following)) is not None:
                self._start(following)
                turn.set_result(None)
                return

    def _may_have(self, caller: str) -> bool:
        if self._total >= self._most:
            return False
        return not caller or self._running.get(caller, 0) < self._share

    def _start(self, caller: str) -> None:
        self._total += 1
        self._running[caller] = self._running.get(caller, 0) + 1

    def _next(self, caller: str) -> asyncio.Future[None] | None:
        """Return the longest waiting turn of a caller, who then waits behind the other callers."""
        queue = self._waiting.pop(caller)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                if queue:
                    self._waiting[caller] = queue
                return turn
        return None

    def _forget(self, caller: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(caller)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[caller]
