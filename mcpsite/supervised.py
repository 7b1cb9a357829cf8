"""Communication between a process and its supervisor, if it has one: heartbeats and permissions."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from contextlib import suppress

SECONDS = 1.0
# Seconds to end in order after the supervisor died: the grace that it would have given.
ORPHAN_SECONDS = 8.0


class SignsOfLife:
    """The pipe for heartbeats to the supervisor. Only the process that created this object writes to it."""

    def __init__(self) -> None:
        """Remove the descriptor from the environment, so that programs started later do not inherit it."""
        self._descriptor = _inherited("READY_FD")
        self._owner = os.getpid()
        if self._descriptor is not None:
            os.set_blocking(self._descriptor, False)
            threading.Thread(target=_end_without_supervisor, args=(self._descriptor,), daemon=True).start()

    @property
    def wanted(self) -> bool:
        """True if a supervisor expects heartbeats."""
        return self._descriptor is not None

    def give(self, sign: bytes = b"1") -> None:
        """Send a heartbeat. This never blocks and never fails."""
        if self._descriptor is not None and os.getpid() == self._owner:
            # If the supervisor is blocked or dead, it does not read.
            with suppress(OSError):
                os.write(self._descriptor, sign)


class Permits:
    """The supervisor's permissions to load edited code and to serve it."""

    def __init__(self) -> None:
        self._descriptor = _inherited("PERMIT_FD")
        self._given = 0

    @property
    def needed(self) -> bool:
        """True if a supervisor gives permissions."""
        return self._descriptor is not None

    def to_load(self) -> None:
        """Wait for permission to load code that may be edited."""
        self._wait_for(1)

    def to_serve(self) -> None:
        """Report that all code is loaded, and wait for permission to serve."""
        self._wait_for(1)
        signs_of_life.give(b"0")
        self._wait_for(2)

    def _wait_for(self, number: int) -> None:
        while self._descriptor is not None and self._given < number:
            if not os.read(self._descriptor, 1):
                sys.exit(0)  # The supervisor has died.
            self._given += 1


def _end_without_supervisor(descriptor: int) -> None:
    """Kill this process and its children if it still runs some seconds after its supervisor died.

    The kernel sends it TERM then (``mcpsite.child``), but ending in order may hang: Redis is dead, too.
    """
    reader_is_gone = select.poll()
    reader_is_gone.register(descriptor, 0)
    reader_is_gone.poll()
    time.sleep(ORPHAN_SECONDS)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _inherited(name: str) -> int | None:
    given = os.environ.pop(name, "")
    if not given:
        return None
    os.set_inheritable(int(given), False)
    return int(given)


# One object of each class per process, because creating it removes the descriptor from the environment.
signs_of_life = SignsOfLife()
permits = Permits()
