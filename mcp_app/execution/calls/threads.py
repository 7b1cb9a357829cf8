"""The bounded threads of one process for synchronous code; must not know what runs in them.

Work is handed over in containers of which each operation is one step, so neither side waits for a lock of the
other. One thread at a time is woken, and wakes the next if there is more to do: what takes no time is done by
the first before the second is awake. What has ended is handed back by waking the event loop once for all of
it.
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

# Threads that wait for a client's answer hold no place, only memory and the connections they have opened.
MAX_WAITING = 256
CLOSING_SECONDS = 3.0

T = TypeVar("T")


class Work:
    """One function for a thread, which holds a place while it runs it; not while it only waits (ELI-14)."""

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
        # Whether others may have its place; its thread ends with it then, for it would be one too many.
        self.is_away = False

    def running(self) -> bool:
        """Whether a thread runs it now; may be asked from any thread."""
        return self.has_begun and not self._has_ended

    def done(self) -> bool:
        """Whether no thread runs it any more, or ever will; may be asked from any thread."""
        return self._has_ended

    async def outcome(self) -> Any:
        """What the function returned or raised; not begun when the caller is cancelled, it never begins."""
        try:
            await self._ended
        except asyncio.CancelledError:
            if self._threads.withdraw(self):
                self._has_ended = True
            if self._ended.cancelled():
                # A thread cannot be stopped: others may still wait for its end.
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
            del error  # Its traceback leads here: a circle.

    async def end(self, seconds: float | None = None) -> None:
        """Wait until no thread runs it any more, for ``seconds`` at most."""
        await asyncio.wait((self._ended,), timeout=seconds)

    async def away(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question`` while the thread that asks leaves its place to others."""
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
        """Called by its thread."""
        # Cancelled in this turn of the loop, which did not come to withdraw it. What ends its thread begins.
        if self._ended.cancelled() and not self.is_away:
            self._has_ended = True
            return
        self.has_begun = True
        assert self._context is not None
        try:
            self._value = run_in(self._context, self._call, connections)
        except BaseException as error:  # noqa: BLE001 - its caller gets what it raised, whatever it is
            self._error = error
        # What nobody waits for any more must not keep alive what it was given.
        self._function, self._arguments, self._context = None, (), None
        self._has_ended = True

    def _call(self, connections: KeptConnections) -> Any:
        _own.set(self)
        assert self._function is not None
        return connections.run(self._function, *self._arguments)

    def hand_back(self, then: Callable[[], None]) -> None:
        """Called by its thread: have ``then`` called on the event loop."""
        self._returns.put(then)

    def on_end(self) -> None:
        """Tell those who wait for its end; harmless when they know."""
        if not self._ended.done():
            self._ended.set_result(None)


class _Returns:
    """What threads have called on one event loop, which they wake once for all that it has not seen yet."""

    __slots__ = ("_is_told", "_waiting", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_told = False

    def put(self, then: Callable[[], None]) -> None:
        self._waiting.append(then)
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # The event loop may have ended before a deaf thread.
                self.loop.call_soon_threadsafe(self._call_all)

    def _call_all(self) -> None:
        # First: what is put from now on wakes the loop again.
        self._is_told = False
        while self._waiting:
            self._waiting.popleft()()


class _Thread(threading.Thread):
    """Runs one work after another; a daemon, because one that waits for work must not keep the process."""

    def __init__(self, name: str, threads: Threads) -> None:
        super().__init__(name=name, daemon=True)
        self._threads = threads
        self.is_busy = False
        # Held but for the moment in which the thread is woken.
        self.bell = threading.Lock()
        self.bell.acquire()

    def run(self) -> None:
        """Called by the thread."""
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
            # Not kept until the next comes.
            del work
        connections.close()
        if work is not None:
            work.hand_back(partial(self._threads.on_retired, self, work))


class Threads:
    """At most ``limit`` threads run at once; as many as ``MAX_WAITING`` more may wait for clients.

    For one event loop at a time; only ``next`` is called by the threads. ``yields``: they do not take the
    processor from it when it wakes them.
    """

    def __init__(self, limit: int, *, yields: bool = False) -> None:
        self._limit = limit
        self.yields = yields
        self._numbers = count()
        self._threads: set[_Thread] = set()
        self._away = 0
        self._is_closed = False
        self._returns: _Returns | None = None
        # In the order in which it came; taken out by the thread that runs it, or by who no longer wants it.
        self._waiting: OrderedDict[Work, None] = OrderedDict()
        # Those that wait for work. The last to come is the first to go: its connections are the freshest.
        self._idle: list[_Thread] = []
        # Whether one was woken that has not looked for work yet; it will see what comes until then.
        self._is_rung = False
        _all.add(self)

    def start(self, function: Callable[..., Any], *arguments: Any) -> Work:
        """Have ``function`` run in a thread as soon as there is a place for it; it inherits our context."""
        if self._is_closed:
            raise RuntimeError("The process is ending.")
        loop = asyncio.get_running_loop()
        if self._returns is None or self._returns.loop is not loop:
            self._returns = _Returns(loop)
        work = Work(function, arguments, self, self._returns)
        self._put(work)
        return work

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The value of ``function`` in a thread."""
        return await self.start(function, *arguments).outcome()

    def withdraw(self, work: Work) -> bool:
        """Whether no thread had taken it; now none will."""
        return self._waiting.pop(work, self) is None

    def leave(self, work: Work) -> None:
        """Let another thread run while that of ``work`` waits; harmless when it has left already."""
        if not work.is_away:
            work.is_away = True
            self._away += 1
            if self._waiting and not self._idle:
                self._grow()

    async def come_back(self, work: Work, returns: _Returns) -> None:
        """Wait until there is a place for ``work``, behind all that waits already."""
        if not work.is_away:
            return
        work.is_away = False
        if len(self._threads) <= self._most(self._away - 1):  # Nobody has taken the one that it left.
            self._away -= 1
            return
        # The thread that takes this up ends with it, and so makes the place.
        substitute = Work(_do_nothing, (), self, returns)
        substitute.is_away = True
        self._put(substitute)
        try:
            await substitute.outcome()
        except asyncio.CancelledError:
            work.is_away = substitute.done() and not substitute.has_begun
            raise

    async def close(self) -> None:
        """Take no more work and close the kept connections; a thread that does not end is left behind."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().bell.release()
        if waiting := [thread for thread in self._threads if not thread.is_busy]:
            # A connection left open would keep a test's database from being dropped.
            await asyncio.to_thread(_join, waiting, CLOSING_SECONDS)

    def next(self, thread: _Thread, connections: KeptConnections) -> Work | None:
        """What ``thread``, which calls this, has to run next; None when it has to end."""
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
        """Until there may be work for ``thread``, which calls this; closes old connections meanwhile."""
        self._idle.append(thread)
        # What came just before could not wake it.
        if self._waiting or self._is_closed:
            with suppress(ValueError):  # Somebody is about to wake it.
                self._idle.remove(thread)
                return
        while not thread.bell.acquire(timeout=connections.seconds_left()):
            connections.close_old()
        # Before it looks: what comes from now on wakes another.
        self._is_rung = False

    def _ring(self) -> None:
        """Wake a thread, unless one is being woken or all of them are busy."""
        if self._is_rung or not self._idle:
            return
        with suppress(IndexError):  # Another thread was faster.
            thread = self._idle.pop()
            self._is_rung = True
            thread.bell.release()

    def on_retired(self, thread: _Thread, work: Work) -> None:
        """A thread has ended with a work whose place others may have."""
        self._threads.discard(thread)
        self._away -= 1
        work.on_end()

    def join(self) -> None:
        """Wait for the threads that are busy, but not in a child that one of them has forked."""
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
    """The work of the calling thread; None in a thread that application code started by itself."""
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
# A process does not end in the middle of work, but without waiting for threads that have none.
atexit.register(_join_all)
