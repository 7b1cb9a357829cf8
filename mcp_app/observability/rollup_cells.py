"""Owns counting messages into cells: by minute, method, tool and outcome, with a histogram of durations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mcp_app.observability.counts import BUCKETS, METHODS, OTHER

MINUTE: Final = 60
TOOL_CHARACTERS: Final = 128
# A cell's numbers: messages, those of them that are not in the log, milliseconds, one number for each bucket.
COUNT, SKIPPED, MS, FIRST_BUCKET = 0, 1, 2, 3
WIDTH: Final = FIRST_BUCKET + len(BUCKETS) + 1

# More than a process can have counted at once; what claims more was not written by one.
MOST_COUNTED: Final = 10_000_000

# When a minute began (Unix time), method, tool, outcome.
Key = tuple[int, str, str, str]
Cell = list[Any]


class RollupCells:
    """Cells by key. A message of unknown kind has the method OTHER; one without an outcome has ""."""

    __slots__ = ("_most", "cells")

    def __init__(self, most: int | None = None) -> None:
        self.cells: dict[Key, Cell] = {}
        self._most = most

    def add(
        self, at: float, method: str, target: str, outcome: str, ms: float | None, *, skipped: bool = False
    ) -> None:
        """One message; ``ms`` is None where nothing was timed."""
        tool = ""
        if method not in METHODS:
            method = OTHER
        elif method == "tools/call" and outcome:
            tool = target[:TOOL_CHARACTERS] or OTHER
        cell = self._cell((int(at) // MINUTE * MINUTE, method, tool, outcome))
        cell[COUNT] += 1
        cell[SKIPPED] += skipped
        if ms is not None:
            cell[MS] += ms
            cell[FIRST_BUCKET + bisect_left(BUCKETS, ms / 1000)] += 1

    def add_unknown(self, at: float, count: int) -> None:
        """Messages of which only the number is known; they are not in the log."""
        if count > 0:
            cell = self._cell((int(at) // MINUTE * MINUTE, OTHER, "", ""))
            cell[COUNT] += count
            cell[SKIPPED] += count

    def merge(self, cells: Iterable[tuple[Key, Cell]]) -> None:
        """Add what another tally counted."""
        for key, numbers in cells:
            cell = self._cell(key)
            for place, number in enumerate(numbers):
                cell[place] += number

    def subtract(self, written: list[list[Any]]) -> None:
        """Take away what ``written`` gave, and was handed on."""
        for minute, method, tool, outcome, *numbers in written:
            key = (minute, method, tool, outcome)
            cell = [mine - theirs for mine, theirs in zip(self.cells[key], numbers, strict=True)]
            if cell[COUNT]:
                self.cells[key] = cell
            else:
                del self.cells[key]

    @property
    def total(self) -> int:
        """How many messages were counted."""
        return sum(cell[COUNT] for cell in self.cells.values())

    def written(self) -> list[list[Any]]:
        """The cells as JSON takes them."""
        return [[*key, *cell] for key, cell in self.cells.items()]

    def _cell(self, key: Key) -> Cell:
        cell = self.cells.get(key)
        if cell is None:
            if self._most is not None and len(self.cells) >= self._most:
                # Full: what is new is counted without its names, in the minute of the first one.
                key = (next(iter(self.cells))[0], OTHER, "", key[3])
            cell = self.cells.setdefault(key, [0] * WIDTH)
        return cell


def read(written: list[list[Any]]) -> list[tuple[Key, Cell]]:
    """Cells as ``RollupCells.written`` gave them; raises ValueError or TypeError for anything else."""
    found: list[tuple[Key, Cell]] = []
    for minute, method, tool, outcome, *numbers in written:
        if len(numbers) != WIDTH or not all(type(name) is str for name in (method, tool, outcome)):
            raise ValueError("This is not a cell of a tally.")
        folded = method if method in METHODS else OTHER
        counts = [float(number) if place == MS else int(number) for place, number in enumerate(numbers)]
        if min(counts) < 0 or max(counts[:MS] + counts[FIRST_BUCKET:]) > MOST_COUNTED:
            raise ValueError("No process counts so many messages at once.")
        key = (int(minute) // MINUTE * MINUTE, folded, tool[:TOOL_CHARACTERS], outcome)
        found.append((key, counts))
    return found


def percentile(buckets: Sequence[int], share: float) -> float | None:
    """The seconds that ``share`` of what was timed took at most; None when nothing was.

    Evenly spread within a bucket, so it is as exact as the bucket is narrow; what took longer than the last
    bound counts as that bound.
    """
    wanted = sum(buckets) * share
    if not wanted:
        return None
    below, lower = 0, 0.0
    for count, upper in zip(buckets, BUCKETS, strict=False):
        if count and below + count >= wanted:
            return lower + (upper - lower) * (wanted - below) / count
        below, lower = below + count, upper
    return float(BUCKETS[-1])
