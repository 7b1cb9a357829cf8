"""Questions that a child of a worker waits for: how many do, which the worker's main process can see.

Up to 2025-11-25 a call that asks waits inside its code, so its child can do nothing else. For as long the
worker has one child more, so that no caller stops the others by not answering. That costs memory, so it is
bounded: a question beyond the bound is refused, and no child waits without a substitute.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import Any

from mcp_app.sessions.client_requests import ClientRequests, NoAnswer
from mcp_app.sessions.message_log import MessageLog
from mcp_app.streams.gateway import Streams

SLOTS = 4096
TOO_MANY = "Too many calls wait for answers of their clients already. Try again when some were answered."
_PID_BYTES = 4


class WaitingChildren:
    """The numbers of the waiting children of one worker, in memory that they share with its main process.

    Made before they are forked. Each child writes its own slot only, so nothing has to be locked, and
    nothing is left locked by one that is killed. Two that look at once may both take the last place.
    """

    def __init__(self) -> None:
        self._pids = memoryview(mmap.mmap(-1, SLOTS * _PID_BYTES)).cast("I")

    def begin(self, slot: int, most: int) -> bool:
        """This process waits from now on; False when ``most`` of the worker's wait already."""
        if slot >= SLOTS or sum(map(bool, self._pids)) >= most:
            return False
        self._pids[slot] = os.getpid()
        return True

    def end(self, slot: int) -> None:
        """This process waits no longer."""
        self._pids[slot] = 0

    def count(self, children: Mapping[int, int]) -> int:
        """How many of the ``children`` (pid by slot) wait; forgets those that are gone."""
        waiting = 0
        for slot, pid in enumerate(self._pids):
            if pid and children.get(slot) == pid:
                waiting += 1
            elif pid:
                self._pids[slot] = 0
        return waiting


class Place:
    """This child's place among the waiting ones of its worker; ``waits`` may be read from any thread."""

    def __init__(self, children: WaitingChildren, slot: int, most: int) -> None:
        self._children, self._slot, self._most = children, slot, most
        self._open = 0

    @property
    def waits(self) -> bool:
        """Whether a question of this child's call is open."""
        return self._open > 0

    def begin(self) -> None:
        """One more question is open. Raises NoAnswer when the child may not wait."""
        if not self._open and not self._children.begin(self._slot, self._most):
            raise NoAnswer(TOO_MANY)
        self._open += 1

    def end(self) -> None:
        """One question less."""
        self._open -= 1
        if not self._open:
            self._children.end(self._slot)


class WorkerRequests(ClientRequests):
    """The questions of a worker's child, which takes a place among the waiting ones while it has any open."""

    def __init__(self, streams: Streams, log: MessageLog, seconds: float, place: Place) -> None:
        super().__init__(streams, log, seconds)
        self._place = place

    async def ask(self, *question: Any) -> dict[str, Any]:
        """See ``ClientRequests.ask``; raises NoAnswer also when too many questions are open."""
        self._place.begin()
        try:
            return await super().ask(*question)
        finally:
            self._place.end()
