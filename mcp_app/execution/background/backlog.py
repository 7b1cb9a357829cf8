"""The background calls that each person may still open, as far as this process has seen."""

from __future__ import annotations

from collections.abc import Callable

from mcp_app.protocol.errors import TooManyRequests
from mcp_app.protocol.principal_key import Person, person_of

REMEMBERED = 10_000
TOO_MANY = "Too many background calls wait or run: wait for some to end, or cancel some."


class Backlog:
    """Counts in the database only when a person has used up what the last count left.

    So a call of a person with few of them costs nothing. Several processes may each let through what one
    count left.
    """

    def __init__(self, limit: int, count: Callable[[Person], int]) -> None:
        """``count`` returns how many calls of a person are open; it may block."""
        self._limit = limit
        self._count = count
        self._left: dict[Person, int] = {}

    def admit(self, principal: str) -> None:
        """Take in one more call; raises TooManyRequests when as many are open as may be."""
        person = person_of(principal)
        left = self._left.get(person, 0)
        if left <= 0:
            left = self._limit - self._count(person)
            if left <= 0:
                raise TooManyRequests(TOO_MANY, retry_after=5)
            if len(self._left) >= REMEMBERED:
                self._left.clear()
        self._left[person] = left - 1
