"""The counters of all processes, and the last report of each process.

Reports contain only increments, so that the counts stay when a process ends. If it is not known whether a
report was delivered, it is sent again: its number shows whether it has been counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_app.streams.base import Increment, Totals
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.keys import FIGURES
from mcp_app.streams.stores.storage_quota import memory

# A process that has not reported for this time counts as ended.
LIFE_SECONDS = 15
# The time for which a repeated report is recognized.
REMEMBER_SECONDS = 3_600
TTL_SECONDS = 7 * 86_400
MOST_NAMES = 200
OTHER = "other"


class RedisMetrics:
    """An implementation of ``base.MetricsStore`` on Redis."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    async def add(self, process: str, number: int, increments: Sequence[Increment], state: bytes) -> None:
        bounds = (MOST_NAMES, REMEMBER_SECONDS, TTL_SECONDS)
        flat = [part for increment in increments for part in increment]
        await self._batch.script(scripts.ADD_FIGURES, FIGURES, process, number, state, *bounds, *flat)

    async def read(self) -> Totals:
        totals, _, reports, processes = FIGURES
        found = await self._batch.many(
            [
                ("HGETALL", totals),
                ("HGETALL", reports),
                ("ZRANGE", processes, 0, -1, "WITHSCORES"),
                ("TIME",),
            ]
        )
        since = int(found[3][0]) - LIFE_SECONDS
        living = {process for process, at in _pairs(found[2]) if float(at) >= since}
        return Totals(
            {field.decode(): int(count) for field, count in _pairs(found[0])},
            {
                process.decode(): report.partition(b" ")[2]
                for process, report in _pairs(found[1])
                if process in living
            },
        )

    async def memory(self) -> tuple[int, int] | None:
        return await memory(self._batch)


class MemoryMetrics:
    """An implementation of ``base.MetricsStore`` within one process."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._names: set[str] = set()
        self._reports: dict[str, tuple[int, bytes]] = {}

    async def add(self, process: str, number: int, increments: Sequence[Increment], state: bytes) -> None:
        last = self._reports.get(process, (-1, b""))[0]
        self._reports[process] = (number, state)
        for before, name, after, count in increments if number > last else ():
            field = f"{before}{self._bounded(name)}{after}"
            self._totals[field] = self._totals.get(field, 0) + count

    async def read(self) -> Totals:
        return Totals(dict(self._totals), {process: state for process, (_, state) in self._reports.items()})

    async def memory(self) -> tuple[int, int] | None:
        return None

    def _bounded(self, name: str) -> str:
        if name in ("", OTHER) or name in self._names:
            return name
        if len(self._names) >= MOST_NAMES:
            return OTHER
        self._names.add(name)
        return name


def _pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
