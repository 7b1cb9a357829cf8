"""Questions that a child of a worker waits for: how many do, which the worker's main process can see.

Up to 2025-11-25 a call that asks waits inside its code, so its child can do nothing else. For as long the
worker has one child more, so that no caller stops the others by not answering. That costs memory, so it is
bounded: a question beyond the bound is refused, and no child waits without a substitute.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping

from mcp_app.sessions.client_requests import NoAnswer

SLOTS = 4096
TOO_MANY = "Too many calls wait for answers of their clients already. Try again when some were answered."
_PID_BYTES = 4


class WaitingChildren:
    """``pids`` of the waiting children of one worker, in memory that they share with its main process.

    Made before they are forked. Each child writes its own slot only, so nothing has to be locked, and
    nothing is left locked by one that is killed.
    """

    def __init__(self) -> None:
        self.pids = memoryview(mmap.mmap(-1, SLOTS * _PID_BYTES)).cast("I")

    def count(self, children: Mapping[int, int]) -> int:
        """How many of the ``children`` (pid by slot) wait; forgets those that are gone."""
        waiting = 0
        for slot, pid in enumerate(self.pids):
            if pid and children.get(slot) == pid:
                waiting += 1
            elif pid:
                self.pids[slot] = 0
        return waiting


class Place:
    """This child's place among the waiting ones of its worker, held within each of its questions.

    ``waits`` may be read from any thread.
    """

    def __init__(self, children: WaitingChildren, slot: int, most: int) -> None:
        self._children, self._slot, self._most = children, slot, most
        self._open = 0

    @property
    def waits(self) -> bool:
        """Whether a question of this child's call is open."""
        return self._open > 0

    def __enter__(self) -> None:
        """One more question is open. Raises NoAnswer when ``most`` children of the worker wait already."""
        pids, slot = self._children.pids, self._slot
        if not self._open:
            # Two that look at once may both take the last place.
            if slot >= SLOTS or sum(map(bool, pids)) >= self._most:
                raise NoAnswer(TOO_MANY)
            pids[slot] = os.getpid()
        self._open += 1

    def __exit__(self, *_: object) -> None:
        """One question less."""
        self._open -= 1
        if not self._open:
            self._children.pids[self._slot] = 0
