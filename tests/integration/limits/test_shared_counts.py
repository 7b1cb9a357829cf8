"""Limits of several processes on one Redis: exact counts, the stated error, and a Redis that restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from mcp_app.conf import Settings
from mcp_app.database import clock
from mcp_app.database.queries import aquery
from mcp_app.limits import usage
from mcp_app.limits.current import rule_of
from mcp_app.limits.limiter import Limiter, Ticket
from mcp_app.limits.rules import BUDGET, RATE, Bucket, Rule
from mcp_app.limits.services import save_rule
from mcp_app.models import LimitUsage
from mcp_app.protocol.errors import McpError
from mcp_app.streams.connections.keys import limit_key
from mcp_app.streams.gateway import Streams
from mcpsite.redis_server import RedisServer
from tests.streams_contract.waiting import until
from tests.unit.limits.rules import bucket

pytestmark = pytest.mark.django_db(transaction=True)
PROCESSES = 2


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", append_only=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def fleet(own_redis: RedisServer) -> AsyncIterator[list[Limiter]]:
    """Return the limiters of processes with one Redis."""
    connected = [Streams.connect(own_redis.url) for _ in range(PROCESSES)]
    for streams in connected:
        await streams.start()
    yield [Limiter(streams, Settings(web_processes=PROCESSES)) for streams in connected]
    for streams in connected:
        await streams.close()


async def admitted(fleet: list[Limiter], limit: Bucket, tries: int, at_once: int = 20) -> int:
    """Return how many calls are admitted of those that all processes try at once."""
    found = 0

    async def one(limiter: Limiter) -> None:
        nonlocal found
        for _ in range(tries // len(fleet) // at_once):
            try:
                await limiter.admit(Ticket((limit,)))
            except McpError:
                continue
            found += 1

    await asyncio.gather(*(one(limiter) for limiter in fleet for _ in range(at_once)))
    return found


async def test_slow_rate_of_two_processes_is_exact(fleet: list[Limiter]) -> None:
    assert await admitted(fleet, bucket(rate=100, rate_period="day"), 2_000) == 100


async def test_fast_rate_of_two_processes_stays_within_its_leases(fleet: list[Limiter]) -> None:
    limit = bucket(rate=2_000, rate_period="second", burst=200)
    began = time.monotonic()
    found = await admitted(fleet, limit, 20_000)
    exact = 200 + (time.monotonic() - began) * 2_000
    assert 200 <= found <= exact + PROCESSES * limit.lease
    assert sum(limiter.leases.trips for limiter in fleet) < found


async def test_budget_of_two_processes_is_exact(fleet: list[Limiter]) -> None:
    limit = bucket(BUDGET, budget=150, budget_period="month")
    assert await admitted(fleet, limit, 2_000) == 150
    (noted,) = usage._notes.units.values()
    assert noted == 150


async def test_clock_of_redis_set_back_by_an_hour_delays_calls_for_one_burst(
    fleet: list[Limiter], own_redis: RedisServer
) -> None:
    """An hour back on the clock is the same as an arrival time an hour ahead."""
    limit = bucket(rate=50, rate_period="second", burst=10)
    with redis.Redis.from_url(own_redis.url, protocol=2) as client:
        client.set(limit_key(limit.key), round((time.time() + 3_600) * 1_000_000))

        async def again() -> bool:
            return await admitted(fleet, limit, 40, 1) > 0

        await until(again)
        left = float(client.get(limit_key(limit.key)) or 0) / 1_000_000 - time.time()
        assert left < 1


async def test_budget_goes_on_from_its_row_after_redis_lost_it(
    fleet: list[Limiter], own_redis: RedisServer
) -> None:
    row = await _saved("monthly", budget=100, budget_period="month")
    limit = Bucket(row, BUDGET, "all")
    assert await admitted(fleet, limit, 40, 1) == 40
    await aquery(usage.store)
    with redis.Redis.from_url(own_redis.url, protocol=2) as client:
        client.flushall()
    assert await admitted(fleet, limit, 400, 1) == 60


async def test_restarted_redis_admits_one_burst_more_at_most(
    fleet: list[Limiter], own_redis: RedisServer
) -> None:
    row = await _saved("limited", rate=30, rate_period="day", budget=1_000)
    rate, budget = Bucket(row, RATE, "all"), Bucket(row, BUDGET, "all")
    assert await admitted(fleet, rate, 400) == 30
    assert await admitted(fleet, budget, 40, 1) == 40
    await aquery(usage.store)
    await asyncio.to_thread(own_redis.stop)
    # Redis is away: each process admits its share of the rate, and a budget admits nothing.
    assert await admitted(fleet, bucket(rate=30, rate_period="day"), 400) == 30
    assert await admitted(fleet, budget, 40, 1) == 0
    await asyncio.to_thread(own_redis.start)

    async def back() -> bool:
        return await admitted(fleet, budget, 2, 1) == 2

    await until(back)
    for limiter in fleet:
        limiter.leases.forget()
    assert await admitted(fleet, rate, 400) <= 30
    (used,) = [each async for each in LimitUsage.objects.filter(measure=BUDGET)]
    await aquery(usage.store)
    await used.arefresh_from_db()
    assert used.units >= 42


async def test_usage_of_old_periods_is_deleted() -> None:
    row = await _saved("old", budget=5)
    old = clock.utcnow() - timedelta(days=90)
    await LimitUsage.objects.acreate(rule_id=row.id, subject="all", measure=BUDGET, period_start=old)
    assert await aquery(usage.delete_old) == 1


async def _saved(name: str, **values: Any) -> Rule:
    return await aquery(lambda: rule_of(save_rule(actor=None, name=name, who="installation", **values)))
