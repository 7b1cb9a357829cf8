"""The bounded threads of one process for synchronous code; must not know what runs in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

# Threads that wait for a client's answer hold no place, only memory.
MAX_WAITING = 256

T = TypeVar("T")


class Place:
    """The right of one call to run in a thread; given back while its thread only waits (ELI-14)."""

    __slots__ = ("_held", "_places")

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places
        self._held = False

    async def take(self) -> None:
        """Wait until fewer threads run than may."""
        await self._places.acquire()
        self._held = True

    async def away(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question`` while the thread that asks leaves its place to others."""
        self.give_back()
        try:
            answer = await question()
        except Exception:
            await self.take()
            raise
        # Not after a cancellation: the thread has only to end then.
        await self.take()
        return answer

    def give_back(self) -> None:
        """Let another thread run; harmless when the place was given back already."""
        if self._held:
            self._held = False
            self._places.release()


_place: ContextVar[Place | None] = ContextVar("place", default=None)


def own_place() -> Place | None:
    """The place of the calling thread; None in a thread that application code started by itself."""
    return _place.get()


class Threads:
    """At most ``limit`` threads run at once; as many as ``MAX_WAITING`` more may wait for clients."""

    def __init__(self, limit: int) -> None:
        self._places = asyncio.Semaphore(limit)
        self._pool = ThreadPoolExecutor(max_workers=limit + MAX_WAITING, thread_name_prefix="mcp-tool")

    async def start(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Run ``function`` in a thread once there is a place for it; it inherits our context."""
        place = Place(self._places)
        await place.take()
        loop = asyncio.get_running_loop()
        inherited = copy_context()
        inherited.run(_place.set, place)
        try:
            future = self._pool.submit(inherited.run, function, *arguments)
        except RuntimeError:  # The process is ending.
            place.give_back()
            raise

        def ended(_: object) -> None:
            with suppress(RuntimeError):  # The event loop may have ended before a deaf thread.
                loop.call_soon_threadsafe(place.give_back)

        # A thread cannot be stopped: its place is free when it ends, not when its call is over.
        future.add_done_callback(ended)
        return future

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The value of ``function`` in a thread."""
        return await asyncio.wrap_future(await self.start(function, *arguments))

    def close(self) -> None:
        """Take no more work; a thread that does not listen to cancellation is left behind."""
        self._pool.shutdown(wait=False, cancel_futures=True)
