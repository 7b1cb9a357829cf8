"""Counts of messages in cells: by minute, method, tool and outcome, with a histogram of durations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import sqrt
from operator import add
from typing import Any, Final

from mcp_app.models.rollup import BOUNDS
from mcp_app.protocol.messages.methods import METHODS, OTHER

MINUTE: Final = 60
# The name in place of a method under which errors are counted again that are mistakes of callers.
MISTAKES: Final = "mistakes"
TOOL_CHARACTERS: Final = 128
# Indexes of the numbers in a cell: messages, messages missing from the log, milliseconds, bytes of logged
# messages, and the first bucket.
COUNT, SKIPPED, MS, SIZE, FIRST_BUCKET = 0, 1, 2, 3, 4
WIDTH: Final = FIRST_BUCKET + len(BOUNDS) + 1
# A tally that a process sends counts messages that are not in the log, so it has no bytes.
SENT_WIDTH: Final = WIDTH - 1
# The bounds of earlier versions. Stored rows may have them, as well as tallies sent by a process of an
# earlier version.
OLDER: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
OLDER_WIDTH: Final = SIZE + len(OLDER) + 1

# More messages than one process can count in a tally. Larger numbers are rejected as invalid.
MOST_COUNTED: Final = 10_000_000

# Start of the minute (Unix time), method, tool, outcome.
Key = tuple[int, str, str, str]
Cell = list[Any]


class RollupCells:
    """Cells by key.

    Messages with an unknown method are counted under OTHER. Messages without an outcome have the outcome "".
    """

    __slots__ = ("_most", "cells")

    def __init__(self, most: int | None = None) -> None:
        self.cells: dict[Key, Cell] = {}
        self._most = most

    def add(
        self,
        at: float,
        method: str,
        target: str,
        outcome: str,
        ms: float | None,
        *,
        skipped: bool = False,
        size: int = 0,
    ) -> None:
        """Count a message of ``size`` bytes. ``ms`` is None if the message has no duration."""
        tool = ""
        if method not in METHODS:
            method = OTHER
        elif method == "tools/call" and outcome:
            tool = target[:TOOL_CHARACTERS] or OTHER
        cell = self._cell((int(at) // MINUTE * MINUTE, method, tool, outcome))
        cell[COUNT] += 1
        cell[SKIPPED] += skipped
        cell[SIZE] += size
        if ms is not None:
            cell[MS] += ms
            cell[FIRST_BUCKET + bucket_of(ms)] += 1

    def add_mistake(self, at: float, tool: str, outcome: str) -> None:
        """Count a failed call again, as a mistake of its caller."""
        tool = tool[:TOOL_CHARACTERS] or OTHER
        self._cell((int(at) // MINUTE * MINUTE, MISTAKES, tool, outcome))[COUNT] += 1

    def add_unknown(self, at: float, count: int) -> None:
        """Count messages that are missing from the log and whose kind is unknown."""
        if count > 0:
            cell = self._cell((int(at) // MINUTE * MINUTE, OTHER, "", ""))
            cell[COUNT] += count
            cell[SKIPPED] += count

    def merge(self, cells: Iterable[tuple[Key, Cell]]) -> None:
        """Add the counts of another tally."""
        for key, numbers in cells:
            cell = self._cell(key)
            cell[:] = map(add, cell, numbers)

    def subtract(self, written: list[list[Any]]) -> None:
        """Subtract cells after they were sent. ``written`` is the result of the method ``written``."""
        for minute, method, tool, outcome, *numbers in written:
            key = (minute, method, tool, outcome)
            cell = [mine - theirs for mine, theirs in zip(self.cells[key], _received(numbers), strict=True)]
            if cell[COUNT]:
                self.cells[key] = cell
            else:
                del self.cells[key]

    @property
    def total(self) -> int:
        """The number of counted messages."""
        return sum(cell[COUNT] for cell in self.cells.values())

    def written(self) -> list[list[Any]]:
        """Return the cells as JSON lists."""
        return [[*key, *cell[:SIZE], *cell[FIRST_BUCKET:]] for key, cell in self.cells.items()]

    def _cell(self, key: Key) -> Cell:
        cell = self.cells.get(key)
        if cell is None:
            if self._most is not None and len(self.cells) >= self._most:
                # The limit is reached. Messages with new keys are counted as OTHER, in the minute of the
                # first cell.
                key = (next(iter(self.cells))[0], OTHER, "", key[3])
            cell = self.cells.setdefault(key, [0] * WIDTH)
        return cell


def read(written: list[list[Any]]) -> list[tuple[Key, Cell]]:
    """Parse cells from ``RollupCells.written``. Raises ValueError or TypeError for invalid input."""
    found: list[tuple[Key, Cell]] = []
    for minute, method, tool, outcome, *numbers_sent in written:
        is_older = len(numbers_sent) == OLDER_WIDTH
        numbers = _received(
            [*numbers_sent[:SIZE], *from_older(numbers_sent[SIZE:])] if is_older else numbers_sent
        )
        if len(numbers) != WIDTH or not all(type(name) is str for name in (method, tool, outcome)):
            raise ValueError("This is not a cell of a tally.")
        folded = method if method in METHODS else OTHER
        counts = [float(number) if place == MS else int(number) for place, number in enumerate(numbers)]
        if min(counts) < 0 or max(counts[:MS] + counts[FIRST_BUCKET:]) > MOST_COUNTED:
            raise ValueError("No process counts so many messages at once.")
        key = (int(minute) // MINUTE * MINUTE, folded, tool[:TOOL_CHARACTERS], outcome)
        found.append((key, counts))
    return found


def _received(sent: list[Any]) -> list[Any]:
    """Return the numbers of a cell that a process sent, with 0 bytes."""
    return [*sent[:SIZE], 0, *sent[SIZE:]]


def places_of_older() -> list[int]:
    """Return the current bucket for each bucket of the earlier bounds.

    A bucket maps to the current bucket that contains its middle. The last bucket is unbounded and maps by its
    lower bound.
    """
    edges = [OLDER[0] / 4, *OLDER]
    middles = [sqrt(lower * upper) for lower, upper in pairwise(edges)]
    return [bisect_left(BOUNDS, middle) for middle in (*middles, OLDER[-1])]


def from_older(counts: Sequence[Any]) -> list[Any]:
    """Convert counts from the buckets of the earlier bounds to the current buckets."""
    found: list[Any] = [0] * (len(BOUNDS) + 1)
    for count, place in zip(counts, places_of_older(), strict=True):
        found[place] += count
    return found


def bucket_of(ms: float) -> int:
    """Return the index of the bucket for a duration in milliseconds."""
    return bisect_left(BOUNDS, ms / 1000)


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """Return the duration in seconds that the fraction ``share`` of the calls did not exceed.

    The result is the middle of a bucket. Above one millisecond, it therefore differs from the true value by
    at most 10 %. Durations beyond the last bound count as that bound. Returns None if there are no durations.
    """
    wanted = sum(buckets) * share
    if not wanted:
        return None
    below, lower = 0, BOUNDS[0] / 4
    for count, upper in zip(buckets, BOUNDS, strict=False):
        below += count
        if count and below >= wanted:
            return sqrt(lower * upper)
        lower = upper
    return BOUNDS[-1]
