"""What a process says to its supervisor, if it has one: that it serves, then that it does not stand still."""

from __future__ import annotations

import os
from contextlib import suppress

SECONDS = 1.0


class SignsOfLife:
    """The pipe to the supervisor; only its own process writes, whichever processes inherit it."""

    def __init__(self) -> None:
        """Takes the descriptor out of the environment: no program that we start gets to know of it."""
        given = os.environ.pop("READY_FD", "")
        self._descriptor = int(given) if given else None
        self._owner = os.getpid()
        if self._descriptor is not None:
            os.set_inheritable(self._descriptor, False)
            os.set_blocking(self._descriptor, False)

    @property
    def wanted(self) -> bool:
        """Whether a supervisor waits for them."""
        return self._descriptor is not None

    def give(self) -> None:
        """Say that this process serves; never waits and never fails."""
        if self._descriptor is not None and os.getpid() == self._owner:
            # A supervisor that stands still reads nothing, and one that is gone never will.
            with suppress(OSError):
                os.write(self._descriptor, b"1")


# One per process: the first look takes the descriptor out of the environment.
signs_of_life = SignsOfLife()
