"""Reading of request bodies within limits, which precedes all other work (T-POST-11, S10)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp_app.protocol.errors import PayloadTooLarge, Refused

SWEEP_SECONDS = 1.0
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


class BodyReader:
    """A reader of bodies of at most ``limit`` bytes that arrive within ``seconds``.

    One sweep per second over the pending bodies replaces a timer for each body, because nearly all bodies
    have already arrived.
    """

    def __init__(self, limit: int, seconds: float) -> None:
        self._limit = limit
        self._seconds = seconds
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def read(self, receive: Receive, content_length: bytes | None) -> bytes:
        """Read the whole body.

        Raises PayloadTooLarge, which for a declared length happens before a byte is read. Raises Refused: 400
        for an invalid length, 408 for a body that arrives too slowly. Raises Disconnected.
        """
        if content_length is not None and declared_length(content_length) > self._limit:
            raise self._too_large()
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._reading[task] = loop.time() + self._seconds
        if self._sweep is None:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._cancel_late)
        try:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body: bytes = message.get("body", b"")
            if len(body) > self._limit:
                raise self._too_large()
            return await self._rest(receive, body) if message.get("more_body") else body
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            self._late.discard(task)
            task.uncancel()
            raise Refused(f"The body did not arrive within {self._seconds:g} s.", http_status=408) from None
        finally:
            del self._reading[task]

    async def _rest(self, receive: Receive, body: bytes) -> bytes:
        chunks, size, more = [body], len(body), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > self._limit:
                raise self._too_large()
            more = message.get("more_body", False)
        return b"".join(chunks)

    def _cancel_late(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        now = loop.time()
        for task, deadline in self._reading.items():
            if deadline <= now and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._reading:
            self._sweep = loop.call_later(SWEEP_SECONDS, self._cancel_late)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"The body is larger than {self._limit} bytes.")


def declared_length(declared: bytes) -> int:
    """Return the value of a Content-Length header. Raises Refused (400) if the value is not a length."""
    if not declared.isdigit():
        raise Refused("The Content-Length header must be a number.")
    # Python refuses to parse numbers with thousands of digits.
    return int(declared) if len(declared) < 20 else sys.maxsize
