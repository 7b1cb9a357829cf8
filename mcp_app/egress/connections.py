"""Open connections that wait for their next request, and the turns at each origin.

An open connection stays with its checked address. Connections are separate for each event loop, origin and
credential, so that a forked process or another credential never uses an open connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from mcp_app.egress.policy import EgressFailed, Policy
from mcp_app.egress.target import Target
from mcp_app.egress.turns import Turns
from mcp_app.egress.wire import Wire

# Node.js and uvicorn close idle connections after 5 seconds. A request that crosses such a close fails.
IDLE_SECONDS: Final = 4.0
MAX_IDLE: Final = 400
CLOSE_SECONDS: Final = 1.0
Task = asyncio.Task[object]
# Scheme, host and port.
Origin = tuple[str, str, int]


@dataclass(slots=True, weakref_slot=True)
class Kept:
    """The connections of one event loop, idle ones longest idle first, and the turns at each origin."""

    idle: dict[Wire, tuple[Hashable, asyncio.TimerHandle]] = field(default_factory=dict)
    by_key: dict[Hashable, list[Wire]] = field(default_factory=dict)
    turns: dict[Origin, Turns] = field(default_factory=dict)
    # The task of each exchange. A task with an exchange within another is listed twice.
    busy: list[Task] = field(default_factory=list)
    end: AsyncGenerator[None] | None = None
    is_closed: bool = False

    async def enter(self, target: Target, policy: Policy, caller: str) -> Task:
        """Wait for a turn at the target's origin, and return the current task. ``leave`` ends the turn."""
        origin = (target.scheme, target.host, target.port)
        turns = self.turns.get(origin)
        if turns is None:
            turns = self.turns[origin] = Turns(policy.concurrent)
        try:
            await turns.acquire(caller)
        except asyncio.CancelledError:
            self._forget(origin)
            raise
        task = asyncio.current_task()
        if self.is_closed or task is None:
            turns.release(caller)
            self._forget(origin)
            raise EgressFailed("This process is ending, so nothing was sent.", sent=False)
        self.busy.append(task)
        return task

    def leave(self, target: Target, caller: str, task: Task) -> None:
        """End a turn of a task at the target's origin."""
        origin = (target.scheme, target.host, target.port)
        self.busy.remove(task)
        self.turns[origin].release(caller)
        self._forget(origin)

    def _forget(self, origin: Origin) -> None:
        turns = self.turns.get(origin)
        if turns is not None and turns.is_idle:
            del self.turns[origin]

    def take(self, key: Hashable) -> Wire | None:
        """Return the connection that was used last, or None if no open one is left."""
        wires = self.by_key.get(key)
        while wires:
            wire = wires[-1]
            self._remove(wire)
            if wire.is_usable():
                return wire
            wire.abort()
        return None

    def put(self, key: Hashable, wire: Wire) -> None:
        """Keep a connection for IDLE_SECONDS, if it is open."""
        if wire.transport.is_closing():
            return
        if self.is_closed:
            wire.abort()
            return
        timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close, wire)
        self.idle[wire] = (key, timer)
        self.by_key.setdefault(key, []).append(wire)
        if len(self.idle) > MAX_IDLE:
            self._close(next(iter(self.idle)))

    def _remove(self, wire: Wire) -> None:
        key, timer = self.idle.pop(wire)
        timer.cancel()
        wires = self.by_key[key]
        wires.remove(wire)
        if not wires:
            del self.by_key[key]

    def _close(self, wire: Wire) -> None:
        self._remove(wire)
        wire.transport.close()

    async def aclose(self) -> None:
        """Close all connections. Those that are put back later are closed at once.

        Tasks that the end of others started, such as those that end a session, are cancelled.
        """
        self.is_closed = True
        busy = {*self.busy} - {asyncio.current_task()}
        for task in busy:
            task.cancel()
        if busy:
            await asyncio.wait(busy, timeout=CLOSE_SECONDS)
        for wire in list(self.idle):
            self._remove(wire)
            wire.abort()
        # The event loop closes the sockets in its next steps.
        for _ in range(3):
            await asyncio.sleep(0)


_BY_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, Kept] = WeakKeyDictionary()


async def kept() -> Kept:
    """Return the open connections of the running event loop."""
    loop = asyncio.get_running_loop()
    found = _BY_LOOP.get(loop)
    if found is None:
        found = _BY_LOOP[loop] = Kept()
        found.end = _closed_with_loop(found)
        await anext(found.end)
    return found


async def _closed_with_loop(opened: Kept) -> AsyncGenerator[None]:
    # An event loop closes its asynchronous generators before it ends.
    try:
        yield
    finally:
        await opened.aclose()
