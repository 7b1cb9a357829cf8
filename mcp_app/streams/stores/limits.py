"""Rates and budgets that all processes share: on Redis, and in the memory of a single process."""

from __future__ import annotations

import time
from collections.abc import Sequence

from mcp_app.streams.base import Lease, Spending
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.keys import limit_key
from mcp_app.streams.stores.memory import Clock

# The counts that a process without Redis keeps; expired ones are dropped first.
KEPT = 20_000


class RedisLimits:
    """An implementation of ``base.LimitStore`` on Redis."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    async def lease(self, key: str, emission: int, burst: int, calls: int) -> Lease:
        taken, wait = await self._batch.script(scripts.LEASE, [limit_key(key)], emission, burst, calls)
        return Lease(int(taken), int(wait))

    async def spend(
        self, key: str, units: int, budget: int | None, seconds: float, stored: int | None = None
    ) -> Spending:
        arguments = spend_arguments(units, budget, seconds, stored)
        return spending(await self._batch.script(scripts.SPEND, [limit_key(key)], *arguments))

    async def forget(self, keys: Sequence[str]) -> None:
        await self._batch.many([("DEL", limit_key(key)) for key in keys])


class MemoryLimits:
    """An implementation of ``base.LimitStore`` within one process."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._arrivals: dict[str, int] = {}
        self._spent: dict[str, tuple[float, int]] = {}

    async def lease(self, key: str, emission: int, burst: int, calls: int) -> Lease:
        return self.lease_now(key, emission, burst, calls)

    def lease_now(self, key: str, emission: int, burst: int, calls: int) -> Lease:
        """Take calls from a rate, as ``lease`` does."""
        now, tolerance = int(self._clock() * 1_000_000), emission * burst
        stored = self._arrivals.get(key, 0)
        arrival = min(max(stored, now), now + tolerance)
        taken = min(calls, (now + tolerance - arrival) // emission)
        if taken < 1:
            if arrival < stored:  # The clock was set back.
                self._arrivals[key] = arrival
            return Lease(0, arrival + emission - now - tolerance)
        if len(self._arrivals) >= KEPT:
            self._arrivals = {name: at for name, at in self._arrivals.items() if at > now}
        self._arrivals[key] = arrival + taken * emission
        return Lease(taken, 0)

    async def spend(
        self, key: str, units: int, budget: int | None, seconds: float, stored: int | None = None
    ) -> Spending:
        now = self._clock()
        ends, spent = self._spent.get(key, (0.0, stored))
        if ends <= now:
            spent = stored
        if spent is None:
            return Spending(fits=False, units=0, is_unknown=True)
        fits = budget is None or spent + units <= budget
        if len(self._spent) >= KEPT:
            self._spent = {name: kept for name, kept in self._spent.items() if kept[0] > now}
        self._spent[key] = now + seconds, max(0, spent + units) if fits else spent
        return Spending(fits, self._spent[key][1])

    async def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._arrivals.pop(key, None)
            self._spent.pop(key, None)


def spend_arguments(units: int, budget: int | None, seconds: float, stored: int | None) -> tuple[int, ...]:
    """Return the arguments of the script ``spend``."""
    most, known = -1 if budget is None else budget, -1 if stored is None else stored
    return (units, most, max(1, round(seconds * 1000)), known)


def spending(reply: Sequence[int]) -> Spending:
    """Return the outcome in a reply of the script ``spend``."""
    return Spending(int(reply[0]) == 1, int(reply[1]), int(reply[0]) < 0)
