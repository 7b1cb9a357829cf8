"""The clocks of a process, in a test that does not wait."""

from __future__ import annotations


class Stopped:
    """A clock that goes on only when it is told to."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.passed = 0.0

    def time(self) -> float:
        return self.now + self.passed

    def monotonic(self) -> float:
        return self.passed
