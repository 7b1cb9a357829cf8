"""The bounded thread pool of one process for synchronous code.

Independent of the code it runs. Work is passed in containers whose operations are atomic, so neither side
waits for a lock of the other. One thread is woken at a time and wakes the next if there is more work, so the
first thread finishes short work before a second wakes. Results are handed back by one wake-up of the event
loop for all of them.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from itertools import count
from typing import Any, TypeVar
from weakref import WeakSet

from mcp_app.database.threads.context import run_in
from mcp_app.database.threads.kept_connections import KeptConnections
from mcp_app.database.threads.scheduling import yield_to_event_loop

# Threads that wait for a client's answer occupy no slot, only memory and their open connections.
MAX_WAITING = 256
CLOSING_SECONDS = 3.0

T = TypeVar("T")


class Work:
    """A function to run in a thread. It occupies a slot while it runs, not while it only waits (ELI-14)."""

    __slots__ = (
        "_arguments",
        "_context",
        "_ended",
        "_error",
        "_function",
        "_has_ended",
        "_returns",
        "_threads",
        "_value",
        "has_begun",
        "is_away",
    )

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], threads: Threads, returns: _Returns
    ) -> None:
        self._function: Callable[..., Any] | None = function
        self._arguments = arguments
        self._context: Context | None = copy_context()
        self._threads = threads
        self._returns = returns
        self._ended = returns.loop.create_future()
        self._value: Any = None
        self._error: BaseException | None = None
        self.has_begun = self._has_ended = False
        # True while other work may use its slot. Its thread then ends after the work, as it would exceed the
        # limit.
        self.is_away = False

    def running(self) -> bool:
        """Return True while a thread runs the work. Thread-safe."""
        return self.has_begun and not self._has_ended

    def done(self) -> bool:
        """Return True once the work has finished or was withdrawn. Thread-safe."""
        return self._has_ended

    async def outcome(self) -> Any:
        """Return the function's value or raise its error.

        If cancelled before a thread took it, it never runs.
        """
        try:
            await self._ended
        except asyncio.CancelledError:
            if self._threads.withdraw(self):
                self._has_ended = True
            if self._ended.cancelled():
                # A thread cannot be stopped, and other code may still wait for its end.
                self._ended = self._returns.loop.create_future()
            if self._has_ended:
                self.on_end()
            raise
        error, value = self._error, self._value
        self._error = self._value = None
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # Its traceback refers to this frame: a reference cycle.

    async def end(self, seconds: float | None = None) -> None:
        """Wait up to ``seconds`` for the work to finish."""
        await asyncio.wait((self._ended,), timeout=seconds)

    async def away(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question`` while other work may use this thread's slot."""
        self._threads.leave(self)
        try:
            answer = await question()
        except Exception:
            await self._threads.come_back(self, self._returns)
            raise
        # Not after a cancellation: the thread has only to end then.
        await self._threads.come_back(self, self._returns)
        return answer

    def run(self, connections: KeptConnections) -> None:
        """Run the function. Called by its thread."""
        # Cancelled in this turn of the loop, before the work could be withdrawn. Work that ends its thread
        # still starts.
        if self._ended.cancelled() and not self.is_away:
            self._has_ended = True
            return
        self.has_begun = True
        assert self._context is not None
        try:
            self._value = run_in(self._context, self._call, connections)
        except BaseException as error:  # noqa: BLE001 - its caller gets what it raised, whatever it is
            self._error = error
        # Drop references so that finished work frees its arguments.
        self._function, self._arguments, self._context = None, (), None
        self._has_ended = True

    def _call(self, connections: KeptConnections) -> Any:
        _own.set(self)
        assert self._function is not None
        return connections.run(self._function, *self._arguments)

    def hand_back(self, then: Callable[[], None]) -> None:
        """Schedule ``then`` on the event loop. Thread-safe."""
        self._returns.put(then)

    def on_end(self) -> None:
        """Mark the work as finished for those that wait for it. Idempotent."""
        if not self._ended.done():
            self._ended.set_result(None)


class _Returns:
    """Callbacks from threads for one event loop, which is woken once for all pending ones."""

    __slots__ = ("_is_told", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_told = False

    def put(self, then: Callable[[], None]) -> None:
        self._waiting.append(then)
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # The event loop may have ended before an unresponsive thread.
                self.loop.call_soon_threadsafe(self._call_all)

    def _call_all(self) -> None:
        # First, so that callbacks added from now on wake the loop again.
        self._is_told = False
        while self._waiting:
            self._waiting.popleft()()


class _Thread(threading.Thread):
    """A thread that runs one work after another. A daemon, so that an idle thread does not block exit."""

    def __init__(self, name: str, threads: Threads) -> None:
        super().__init__(name=name, daemon=True)
        self._threads = threads
        self.is_busy = False
        # Locked except for the moment in which the thread is woken.
        self.bell = threading.Lock()
        self.bell.acquire()

    def run(self) -> None:
        if self._threads.yields:
            yield_to_event_loop()
        connections = KeptConnections()
        while (work := self._threads.next(self, connections)) is not None:
            self.is_busy = True
            work.run(connections)
            self.is_busy = False
            if work.is_away:
                break
            work.hand_back(work.on_end)
            # Drop the reference before waiting for the next work.
            del work
        connections.close()
        if work is not None:
            work.hand_back(partial(self._threads.on_retired, self, work))


class Threads:
    """A pool of at most ``limit`` running threads, plus up to ``MAX_WAITING`` threads that wait for clients.

    For one event loop at a time. Only ``next`` is called by the threads. With ``yields`` they do not preempt
    the event loop when it wakes them.
    """

    def __init__(self, limit: int, *, yields: bool = False) -> None:
        self._limit = limit
        self.yields = yields
        self._numbers = count()
        self._threads: set[_Thread] = set()
        self._away = 0
        self._is_closed = False
        self._returns: _Returns | None = None
        # In order of arrival. Work is removed by the thread that runs it, or when it is withdrawn.
        self._waiting: OrderedDict[Work, None] = OrderedDict()
        # Idle threads. The last to arrive is used first, because its connections are the freshest.
        self._idle: list[_Thread] = []
        # True if a woken thread has not looked for work yet. It will see all work added until then.
        self._is_rung = False
        _all.add(self)

    def start(self, function: Callable[..., Any], *arguments: Any) -> Work:
        """Schedule ``function`` in a thread, with a copy of the current context.

        Raise RuntimeError once closed.
        """
        if self._is_closed:
            raise RuntimeError("The process is ending.")
        loop = asyncio.get_running_loop()
        if self._returns is None or self._returns.loop is not loop:
            self._returns = _Returns(loop)
        work = Work(function, arguments, self, self._returns)
        self._put(work)
        return work

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run ``function`` in a thread and return its value."""
        return await self.start(function, *arguments).outcome()

    def withdraw(self, work: Work) -> bool:
        """Remove work that no thread has taken yet. Return True if it was removed."""
        return self._waiting.pop(work, self) is None

    def leave(self, work: Work) -> None:
        """Free the slot of ``work`` while its thread waits. Idempotent."""
        if not work.is_away:
            work.is_away = True
            self._away += 1
            if self._waiting and not self._idle:
                self._grow()

    async def come_back(self, work: Work, returns: _Returns) -> None:
        """Wait for a slot for ``work``, behind all work that is queued already."""
        if not work.is_away:
            return
        work.is_away = False
        if len(self._threads) <= self._most(self._away - 1):  # The slot is still free.
            self._away -= 1
            return
        # The thread that runs this substitute ends with it, which frees a slot.
        substitute = Work(_do_nothing, (), self, returns)
        substitute.is_away = True
        self._put(substitute)
        try:
            await substitute.outcome()
        except asyncio.CancelledError:
            work.is_away = substitute.done() and not substitute.has_begun
            raise

    async def close(self) -> None:
        """Accept no more work, stop idle threads and close their connections. Busy threads are abandoned."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().bell.release()
        if waiting := [thread for thread in self._threads if not thread.is_busy]:
            # An open connection would keep a test's database from being dropped.
            await asyncio.to_thread(_join, waiting, CLOSING_SECONDS)

    def next(self, thread: _Thread, connections: KeptConnections) -> Work | None:
        """Return the next work for the calling ``thread``, or None if the thread has to end."""
        while True:
            try:
                work = self._waiting.popitem(last=False)[0]
            except KeyError:
                if self._is_closed:
                    return None
                self._wait(thread, connections)
            else:
                if self._waiting:
                    self._ring()
                return work

    def _wait(self, thread: _Thread, connections: KeptConnections) -> None:
        """Wait until there may be work for the calling ``thread``, and close old connections meanwhile."""
        self._idle.append(thread)
        # Work added just before could not wake this thread.
        if self._waiting or self._is_closed:
            with suppress(ValueError):  # It is being woken already.
                self._idle.remove(thread)
                return
        while not thread.bell.acquire(timeout=connections.seconds_left()):
            connections.close_old()
        # Before the thread looks for work, so that work added from now on wakes another.
        self._is_rung = False

    def _ring(self) -> None:
        """Wake an idle thread, unless one is being woken already."""
        if self._is_rung or not self._idle:
            return
        with suppress(IndexError):  # Another thread was faster.
            thread = self._idle.pop()
            self._is_rung = True
            thread.bell.release()

    def on_retired(self, thread: _Thread, work: Work) -> None:
        """Remove a thread that ended because the slot of its work was given away."""
        self._threads.discard(thread)
        self._away -= 1
        work.on_end()

    def join(self) -> None:
        """Wait for the busy threads, but not in a child process that one of them has forked."""
        own = threading.current_thread()
        _join([thread for thread in self._threads if thread.is_busy and thread is not own], None)

    def _put(self, work: Work) -> None:
        self._waiting[work] = None
        if len(self._waiting) > len(self._idle) + self._is_rung and (
            self._away or len(self._threads) < self._limit
        ):
            self._grow()
        self._ring()

    def _grow(self) -> None:
        if len(self._threads) < self._most(self._away):
            thread = _Thread(f"mcp-tool-{next(self._numbers)}", self)
            thread.start()
            self._threads.add(thread)

    def _most(self, away: int) -> int:
        return self._limit + min(away, MAX_WAITING)


def own_work() -> Work | None:
    """Return the work of the calling thread, or None in a thread started by application code."""
    return _own.get()


def _do_nothing() -> None:
    pass


def _join(threads: list[_Thread], seconds: float | None) -> None:
    for thread in threads:
        thread.join(seconds)


def _join_all() -> None:
    for threads in list(_all):
        threads.join()


_own: ContextVar[Work | None] = ContextVar("work", default=None)
_all: WeakSet[Threads] = WeakSet()
# A process does not exit in the middle of work, but does not wait for idle threads.
atexit.register(_join_all)
