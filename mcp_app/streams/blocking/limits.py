"""Rates, budgets and places of limits, without an event loop. Every function raises RedisError."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import redis

from mcp_app import conf
from mcp_app.streams.base import Lease, Spending
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import limit_key, places_key
from mcp_app.streams.stores.limits import spend_arguments, spending

Unavailable = redis.RedisError


def lease(key: str, emission: int, burst: int, calls: int) -> Lease:
    """Take up to ``calls`` calls from a rate, as ``base.LimitStore.lease``."""
    reply: Any = _run(scripts.LEASE, limit_key(key), emission, burst, calls)
    return Lease(int(reply[0]), int(reply[1]))


def spend(key: str, units: int, budget: int | None, seconds: float, stored: int | None = None) -> Spending:
    """Spend units of a budget, as ``base.LimitStore.spend``."""
    return spending(_run(scripts.SPEND, limit_key(key), *spend_arguments(units, budget, seconds, stored)))


def acquire(key: str, holder: str, limit: int, seconds: float) -> bool:
    """Take one of ``limit`` places, as ``base.Windows.acquire``."""
    return bool(_run(scripts.ACQUIRE, places_key(key), holder, limit, round(seconds * 1000)))


def release(key: str, *holders: str) -> None:
    """Release places."""
    if holders:
        _client().zrem(places_key(key), *holders)


def holders(key: str) -> list[str]:
    """Return the holders of places, including those whose lease has just expired."""
    found: Any = _client().zrange(places_key(key), 0, -1)
    return [each.decode() for each in found]


def held(key: str) -> int:
    """Return the number of places in use."""
    return int(_run(scripts.HELD, places_key(key)))


def read(rates: Sequence[str], budgets: Sequence[str], places: Sequence[str]) -> dict[str, int]:
    """Return the stored numbers of counts by key; missing counts are left out.

    The number of a rate is the microseconds until its burst is whole again.
    """
    pipe = _client().pipeline(transaction=False)
    pipe.time()
    for key in (*rates, *budgets):
        pipe.get(limit_key(key))
    for key in places:
        pipe.zcard(places_key(key))
    (seconds, microseconds), *found = pipe.execute()
    now = seconds * 1_000_000 + microseconds
    numbers: dict[str, int] = {}
    for key, value in zip((*rates, *budgets, *places), found, strict=True):
        if value is not None:
            numbers[key] = int(value)
    for key in rates:
        if key in numbers:
            numbers[key] = max(0, numbers[key] - now)
    return numbers


def forget(keys: Sequence[str], places: Sequence[str]) -> None:
    """Remove counts and places."""
    names = [*map(limit_key, keys), *map(places_key, places)]
    if names:
        _client().delete(*names)


def _run(script: scripts.Script, key: str, *arguments: Any) -> Any:
    return _client().eval(script.source, 1, key, *map(str, arguments))


def _client() -> redis.Redis:
    return _connected(conf.get().redis_url or "")


@lru_cache(maxsize=2)
def _connected(url: str) -> redis.Redis:
    return sync_client(url)
