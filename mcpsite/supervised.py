"""What a process and its supervisor, if it has one, say to each other: it lives; it may go on."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

SECONDS = 1.0


class SignsOfLife:
    """The pipe to the supervisor; only its own process writes, whichever processes inherit it."""

    def __init__(self) -> None:
        """Takes the descriptor out of the environment: no program that we start gets to know of it."""
        self._descriptor = _inherited("READY_FD")
        self._owner = os.getpid()
        if self._descriptor is not None:
            os.set_blocking(self._descriptor, False)

    @property
    def wanted(self) -> bool:
        """Whether a supervisor waits for them."""
        return self._descriptor is not None

    def give(self, sign: bytes = b"1") -> None:
        """Say that this process serves; never waits and never fails."""
        if self._descriptor is not None and os.getpid() == self._owner:
            # A supervisor that stands still reads nothing, and one that is gone never will.
            with suppress(OSError):
                os.write(self._descriptor, sign)


class Permits:
    """Waits for the supervisor where code may be edited: before that code is loaded, and before it serves."""

    def __init__(self) -> None:
        self._descriptor = _inherited("PERMIT_FD")
        self._given = 0

    @property
    def needed(self) -> bool:
        """Whether a supervisor decides."""
        return self._descriptor is not None

    def to_load(self) -> None:
        """Wait until the code that may be edited is to be loaded."""
        self._wait_for(1)

    def to_serve(self) -> None:
        """Say that all code is loaded, and wait until it is to serve."""
        self._wait_for(1)
        signs_of_life.give(b"0")
        self._wait_for(2)

    def _wait_for(self, number: int) -> None:
        while self._descriptor is not None and self._given < number:
            if not os.read(self._descriptor, 1):
                sys.exit(0)  # The supervisor is gone.
            self._given += 1


def _inherited(name: str) -> int | None:
    given = os.environ.pop(name, "")
    if not given:
        return None
    os.set_inheritable(int(given), False)
    return int(given)


# One of each per process: the first look takes the descriptors out of the environment.
signs_of_life = SignsOfLife()
permits = Permits()
