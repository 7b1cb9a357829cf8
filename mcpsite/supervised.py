"""Communication of a process with its supervisor, if any: signs of life and permissions."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

SECONDS = 1.0


class SignsOfLife:
    """The pipe to the supervisor; only the process that created this object writes."""

    def __init__(self) -> None:
        """Take the descriptor out of the environment, so that started programs do not inherit it."""
        self._descriptor = _inherited("READY_FD")
        self._owner = os.getpid()
        if self._descriptor is not None:
            os.set_blocking(self._descriptor, False)

    @property
    def wanted(self) -> bool:
        """True if a supervisor expects signs."""
        return self._descriptor is not None

    def give(self, sign: bytes = b"1") -> None:
        """Send a sign; never blocks and never fails."""
        if self._descriptor is not None and os.getpid() == self._owner:
            # A blocked or dead supervisor does not read.
            with suppress(OSError):
                os.write(self._descriptor, sign)


class Permits:
    """The supervisor's permissions to load edited code and to serve it."""

    def __init__(self) -> None:
        self._descriptor = _inherited("PERMIT_FD")
        self._given = 0

    @property
    def needed(self) -> bool:
        """True if a supervisor decides."""
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
                sys.exit(0)  # The supervisor is dead.
            self._given += 1


def _inherited(name: str) -> int | None:
    given = os.environ.pop(name, "")
    if not given:
        return None
    os.set_inheritable(int(given), False)
    return int(given)


# One of each per process: creating them removes the descriptors from the environment.
signs_of_life = SignsOfLife()
permits = Permits()
