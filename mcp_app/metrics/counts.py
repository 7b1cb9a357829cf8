"""Counts of one process since its last report. They are plain numbers, because every request updates them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from mcp_app.protocol.messages.methods import METHODS, OTHER

# Upper bounds of the duration buckets, in seconds. One more bucket has no upper bound.
BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
Increment = tuple[str, str, str, int]


class Counts:
    """Numbers and durations of requests by method, outcome and tool. For use on one event loop.

    The caller must limit the number of keys: ``tool`` must be a name in the catalogue, OTHER or "".
    """

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, str], list[float]] = {}

    def done(self, method: str, outcome: str, tool: str, seconds: float) -> None:
        """Count an answered request. ``tool`` is "" unless the request called a tool."""
        cell = self._cells.get((method, outcome, tool))
        if cell is None:
            cell = self._new(method, outcome, tool)
        cell[bisect_left(BUCKETS, seconds)] += 1
        cell[-1] += seconds

    def take(self) -> list[Increment]:
        """Return the counts since the previous call as increments, and reset them."""
        cells, self._cells = self._cells, {}
        found: dict[tuple[str, str, str], int] = {}
        for (method, outcome, tool), cell in cells.items():
            counted = [("request ", "", f"{method} {outcome}", sum(cell[:-1]))]
            if tool:
                counted.append(("tool ", tool, f" {outcome}", sum(cell[:-1])))
                counted.append(("microseconds ", tool, " sum", cell[-1] * 1e6))
                counted += [("bucket ", tool, f" {at}", count) for at, count in enumerate(cell[:-1]) if count]
            for before, name, after, count in counted:
                key = before, name, after
                found[key] = found.get(key, 0) + round(count)
        return [(*key, count) for key, count in found.items()]

    def _new(self, method: str, outcome: str, tool: str) -> list[float]:
        key = method if method in METHODS else OTHER, outcome, tool
        return self._cells.setdefault(key, [0] * (len(BUCKETS) + 1) + [0.0])
