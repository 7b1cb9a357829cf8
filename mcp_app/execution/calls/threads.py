"""The bounded thread pool of one process for synchronous code.

The pool knows nothing about the code it runs. Work is passed through containers with atomic operations, so
neither the threads nor the event loop wait for a lock held by the other side. Only one thread is woken at a
time. It wakes the next thread if there is more work, so short work is finished by the first thread. The
event loop is woken once for all results that are ready.
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
from mcp_app.database.threads.reusable_connections import ReusableConnections
from mcp_app.database.threads.scheduling import yield_to_event_loop

# Threads that wait for a client's answer use no slot. They only use memory and hold their connections open.
MAX_WAITING = 256
CLOSING_SECONDS = 3.0

T = TypeVar("T")


class Work:
    """A function to run in a thread.

    It uses a slot while it runs, but not while it waits for a client (ELI-14).
    """

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
        # True while other work may use the slot of this work. The thread then ends with this work, because
        # otherwise there would be more threads than slots.
        self.is_away = False

    def running(self) -> bool:
        """Return True while a thread runs the work. Thread-safe."""
        return self.has_begun and not self._has_ended

    def done(self) -> bool:
        """Return True once the work has finished or has been withdrawn. Thread-safe."""
        return self._has_ended

    async def outcome(self) -> Any:
        """Return the function's value or raise its exception.

        If this method is cancelled before a thread has taken the work, the function never runs.
        """
        try:
            await self._ended
        except asyncio.CancelledError:
            if self._threads.withdraw(self):
                self._has_ended = True
            if self._ended.cancelled():
                # The thread cannot be stopped, and other code may still wait for the end of the work.
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
            del error  # The traceback refers to this frame, which would be a reference cycle.

    async def end(self, seconds: float | None = None) -> None:
        """Wait up to ``seconds`` for the work to finish."""
        await asyncio.wait((self._ended,), timeout=seconds)

    async def away(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question``. Other work may use the slot of this thread meanwhile."""
        self._threads.leave(self)
        try:
            answer = await question()
        except Exception:
            await self._threads.come_back(self, self._returns)
            raise
        # After a cancellation no slot is needed, because the thread only has to end.
        await self._threads.come_back(self, self._returns)
        return answer

    def run(self, connections: ReusableConnections) -> None:
        """Run the function. The thread that took the work calls this method."""
        # The work was cancelled in the same turn of the event loop in which a thread took it. Work whose
        # thread has to end must still run.
        if self._ended.cancelled() and not self.is_away:
            self._has_ended = True
            return
        self.has_begun = True
        assert self._context is not None
        try:
            self._value = run_in(self._context, self._call, connections)
        except BaseException as error:  # noqa: BLE001 - the caller gets any exception that the function raises
            self._error = error
        # Drop the references, so that the arguments can be freed.
        self._function, self._arguments, self._context = None, (), None
        self._has_ended = True

    def _call(self, connections: ReusableConnections) -> Any:
        _own.set(self)
        assert self._function is not None
        return connections.run(self._function, *self._arguments)

    def hand_back(self, then: Callable[[], None]) -> None:
        """Schedule ``then`` on the event loop. Thread-safe."""
        self._returns.put(then)

    def on_end(self) -> None:
        """Mark the work as finished, which wakes its waiters. Idempotent."""
        if not self._ended.done():
            self._ended.set_result(None)


class _Returns:
    """Callbacks that threads pass to one event loop. The loop is woken once for all pending callbacks."""

    __slots__ = ("_is_told", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_told = False

    def put(self, then: Callable[[], None]) -> None:
        self._waiting.append(then)
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # The event loop may end before a thread that does not respond.
                self.loop.call_soon_threadsafe(self._call_all)

    def _call_all(self) -> None:
        # Reset the flag first, so that callbacks added from here on wake the loop again.
        self._is_told = False
        while self._waiting:
            self._waiting.popleft()()


class _Thread(threading.Thread):
    """A thread of the pool.

    It is a daemon, so that it does not prevent the process from exiting while idle.
    """

    def __init__(self, name: str, threads: Threads) -> None:
        super().__init__(name=name, daemon=True)
        self._threads = threads
        self.is_busy = False
        # The lock is always held, except for the moment in which the thread is woken.
        self.bell = threading.Lock()
        self.bell.acquire()

    def run(self) -> None:
        if self._threads.yields:
            yield_to_event_loop()
        connections = ReusableConnections()
        while (work := self._threads.next(self, connections)) is not None:
            self.is_busy = True
            work.run(connections)
            self.is_busy = False
            if work.is_away:
                break
            work.hand_back(work.on_end)
            # Drop the reference before the thread waits for its next work.
            del work
        connections.close()
        if work is not None:
            work.hand_back(partial(self._threads.on_retired, self, work))


class Threads:
    """A pool of at most ``limit`` running threads and up to ``MAX_WAITING`` threads that wait for clients.

    It serves one event loop at a time. Threads call only ``next``. All other methods are for the event
    loop. With ``yields``, a thread that is woken does not preempt the event loop.
    """

    def __init__(self, limit: int, *, yields: bool = False) -> None:
        self._limit = limit
        self.yields = yields
        self._numbers = count()
        self._threads: set[_Thread] = set()
        self._away = 0
        self._is_closed = False
        self._returns: _Returns | None = None
        # Work in order of arrival. The thread that takes work removes it, and so does ``withdraw``.
        self._waiting: OrderedDict[Work, None] = OrderedDict()
        # Idle threads. The last to become idle is used first, because its connections were used most
        # recently.
        self._idle: list[_Thread] = []
        # True if a thread has been woken and has not looked for work yet. It will find all work added until
        # then.
        self._is_rung = False
        _all.add(self)

    def start(self, function: Callable[..., Any], *arguments: Any) -> Work:
        """Schedule ``function`` in a thread, with a copy of the current context.

        Raise RuntimeError if the pool is closed.
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
        """Wait until ``work`` has a slot again. Work that is already queued comes first."""
        if not work.is_away:
            return
        work.is_away = False
        if len(self._threads) <= self._most(self._away - 1):  # The slot is still free.
            self._away -= 1
            return
        # This work only takes a place in the queue. The thread that runs it ends with it, which frees a
        # slot.
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
            # An open connection would prevent a test's database from being dropped.
            await asyncio.to_thread(_join, waiting, CLOSING_SECONDS)

    def next(self, thread: _Thread, connections: ReusableConnections) -> Work | None:
        """Return the next work for the calling thread, or None if the thread has to end."""
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

    def _wait(self, thread: _Thread, connections: ReusableConnections) -> None:
        """Wait until there may be work for the calling thread. Close old connections meanwhile."""
        self._idle.append(thread)
        # Work added before this thread became idle could not wake it.
        if self._waiting or self._is_closed:
            with suppress(ValueError):  # Another thread is already waking it.
                self._idle.remove(thread)
                return
        while not thread.bell.acquire(timeout=connections.seconds_left()):
            connections.close_old()
        # Reset before the thread looks for work, so that work added from here on wakes another thread.
        self._is_rung = False

    def _ring(self) -> None:
        """Wake an idle thread, unless a thread is already being woken."""
        if self._is_rung or not self._idle:
            return
        with suppress(IndexError):  # Another caller was faster.
            thread = self._idle.pop()
            self._is_rung = True
            thread.bell.release()

    def on_retired(self, thread: _Thread, work: Work) -> None:
        """Remove a thread that had to end because other work uses the slot of its work."""
        self._threads.discard(thread)
        self._away -= 1
        work.on_end()

    def join(self) -> None:
        """Wait for the busy threads.

        In a child process forked by one of them, do not wait for that thread.
        """
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
    """Return the work that the calling thread runs, or None in a thread started by application code."""
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
# On exit, wait for threads that run work, but not for idle threads.
atexit.register(_join_all)
