"""Process clocks for tests that do not wait."""

from __future__ import annotations


class Stopped:
    """A clock that advances only on request."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.passed = 0.0

    def time(self) -> float:
        return self.now + self.passed

    def monotonic(self) -> float:
        return self.passed
