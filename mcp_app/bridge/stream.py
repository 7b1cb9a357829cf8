"""The messages of one open request, from the process to the caller that waits for them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_WAITING: Final = 100
MAX_WAITING_BYTES: Final = 1024 * 1024
# A caller that reads nothing for this time is given up, because it stops the messages of all callers.
SLOW_SECONDS: Final = 10.0


class ProcessGone(Exception):
    """Raised if a process gives no answer. ``was_sent`` is False if it never received the request."""

    def __init__(self, text: str, *, was_sent: bool) -> None:
        super().__init__(text)
        self.was_sent = was_sent


class Stream:
    """A bounded queue of messages, which ends with the answer or with the reason why there is none."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._is_answered = self._is_closed = False
        self._reason = ""

    def is_finished(self) -> bool:
        """Return True if the message that was returned last is the answer."""
        return self._is_answered and not self._messages

    async def put(self, message: bytes) -> bool:
        """Add a message. Wait while the queue is full. Return False if the caller reads too slowly."""
        if self._is_closed:
            return False
        if len(self._messages) >= MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            self._room.clear()
            try:
                async with asyncio.timeout(SLOW_SECONDS):
                    await self._room.wait()
            except TimeoutError:
                self.fail("The caller did not read the messages of the server.")
                return False
        self._add(message)
        return True

    def answer(self, message: bytes) -> None:
        """Add the answer, which is the last message."""
        self._is_answered = True
        self._add(message)

    def fail(self, reason: str) -> None:
        """End the stream without an answer."""
        self._is_closed, self._reason = True, reason
        self._news.set()
        self._room.set()

    async def next(self) -> bytes:
        """Return the next message. Raise ProcessGone if there is no answer."""
        while not self._messages:
            if self._is_closed:
                raise ProcessGone(self._reason, was_sent=True)
            self._news.clear()
            await self._news.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        self._room.set()
        return message

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self._bytes += len(message)
        self._news.set()
