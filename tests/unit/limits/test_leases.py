"""Rates of processes that lease calls from one shared count, with a clock moved by hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mcp_app.limits.leases import Leases
from mcp_app.limits.rules import RATE, Bucket
from mcp_app.streams.base import Lease, StreamsUnavailable
from mcp_app.streams.stores.limits import MemoryLimits
from tests.unit.limits.rules import bucket


class Clock:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.now = 100_000.0

    def __call__(self) -> float:
        return self.now


class Lost(MemoryLimits):
    """A shared count that can be unavailable."""

    away = False

    async def lease(self, key: str, emission: int, burst: int, calls: int) -> Lease:
        if self.away:
            raise StreamsUnavailable
        return await super().lease(key, emission, burst, calls)


class Fleet:
    """Processes with one shared count."""

    def __init__(self, processes: int = 1) -> None:
        self.clock = Clock()
        self.store = Lost(clock=self.clock)
        self.each = [Leases(self.store, processes, self.clock) for _ in range(processes)]

    async def admitted(self, limit: Bucket, tries: int) -> int:
        """Return how many of ``tries`` calls, spread over the processes, are admitted."""
        waits = [await self.each[at % len(self.each)].take(limit) for at in range(tries)]
        return waits.count(0.0)


# Amounts, the seconds after each round of 1,000 calls, and the calls admitted in each round.
TABLE: tuple[tuple[dict[str, Any], tuple[float, ...], tuple[int, ...]], ...] = (
    ({"rate": 10, "rate_period": "minute"}, (6.0, 60.0, 600.0), (10, 1, 10, 10)),
    ({"rate": 10, "rate_period": "minute", "burst": 1}, (5.0, 1.0, 60.0), (1, 0, 1, 1)),
    ({"rate": 60, "rate_period": "hour", "burst": 5}, (60.0, 180.0, 3_600.0), (5, 1, 3, 5)),
    ({"rate": 7, "rate_period": "day"}, (12_342.0, 1.0, 86_400.0), (7, 0, 1, 7)),
    ({"rate": 1, "rate_period": "second"}, (0.5, 0.5, 1.0), (1, 0, 1, 1)),
)


@pytest.mark.parametrize(("amounts", "pauses", "expected"), TABLE)
@pytest.mark.parametrize("processes", [1, 3])
async def test_slow_rate_is_exact_over_all_processes(
    amounts: dict[str, Any], pauses: tuple[float, ...], expected: tuple[int, ...], processes: int
) -> None:
    fleet, limit = Fleet(processes), bucket(**amounts)
    found = [await fleet.admitted(limit, 1_000)]
    for pause in pauses:
        fleet.clock.now += pause
        found.append(await fleet.admitted(limit, 1_000))
    assert tuple(found) == expected


@pytest.mark.parametrize("processes", [1, 4])
async def test_fast_rate_admits_no_more_than_exact_and_leases(processes: int) -> None:
    fleet, limit = Fleet(processes), bucket(rate=1_000, rate_period="second", burst=100)
    assert limit.lease == 25
    total = 0
    for step in range(1, 201):
        total += await fleet.admitted(limit, 40)
        fleet.clock.now += 0.01
        exact = 100 + step * 10
        assert total <= exact
    assert total >= 100 + 199 * 10 - processes * limit.lease
    assert sum(each.trips for each in fleet.each) < total / 3


async def test_calls_at_once_share_one_lease() -> None:
    fleet, limit = Fleet(), bucket(rate=20, rate_period="minute")
    waits = await asyncio.gather(*(fleet.each[0].take(limit) for _ in range(30)))
    assert waits.count(0.0) == 20
    assert fleet.each[0].trips <= 3


async def test_refused_call_returns_the_seconds_to_wait() -> None:
    fleet, limit = Fleet(), bucket(rate=2, rate_period="minute")
    assert await fleet.admitted(limit, 2) == 2
    fleet.clock.now += 10
    assert await fleet.each[0].take(limit) == pytest.approx(20, abs=0.001)
    trips = fleet.each[0].trips
    assert await fleet.admitted(limit, 500) == 0
    assert fleet.each[0].trips == trips


async def test_clock_set_back_by_an_hour_makes_callers_wait_for_one_burst_at_most() -> None:
    fleet, limit = Fleet(), bucket(rate=10, rate_period="minute")
    assert await fleet.admitted(limit, 20) == 10
    fleet.each[0].forget()
    fleet.clock.now -= 3_600
    assert await fleet.admitted(limit, 20) == 0
    fleet.clock.now += 60
    assert await fleet.admitted(limit, 20) == 10


async def test_raised_rate_is_applied_although_the_earlier_one_had_no_call_for_a_day() -> None:
    fleet, limit = Fleet(), bucket(rate=1, rate_period="day")
    assert await fleet.admitted(limit, 2) == 1
    raised = Bucket(replace(limit.rule, rate=10, rate_period="second"), RATE, "all")
    assert raised.key == limit.key
    assert 0 < await fleet.each[0].take(raised) <= 1
    fleet.clock.now += 1
    assert await fleet.admitted(raised, 20) == 10


async def test_process_without_redis_admits_its_share_of_the_rate() -> None:
    fleet, limit = Fleet(4), bucket(rate=40, rate_period="minute")
    fleet.store.away = True
    assert [await each.take(limit) for each in fleet.each] == [0.0] * 4
    assert await fleet.admitted(limit, 1_000) == 36
    fleet.clock.now += 6
    assert await fleet.admitted(limit, 1_000) == 4


async def test_leased_call_is_admitted_without_waiting_in_all_limits_or_in_none() -> None:
    fleet = Fleet()
    fast, other = (bucket(rate=1_000, rate_period="second", burst=100) for _ in range(2))
    leases = fleet.each[0]
    assert leases.take_now([])
    assert not leases.take_now([fast])
    assert await fleet.admitted(fast, 1) == 1
    assert not leases.take_now([fast, other])
    assert [leases.take_now([fast]) for _ in range(25)].count(True) == 24
    fleet.clock.now += 1
    assert not leases.take_now([fast])


async def test_call_that_did_not_start_is_given_back() -> None:
    fleet, limit = Fleet(), bucket(rate=1, rate_period="minute")
    assert await fleet.admitted(limit, 1) == 1
    fleet.each[0].give_back(limit)
    assert await fleet.admitted(limit, 5) == 1
