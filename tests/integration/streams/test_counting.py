"""Rate limit windows: counted over all processes, or by each process while Redis is unavailable."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis

from mcp_app import conf
from mcp_app.streams import Streams
from mcp_app.streams.blocking import counting
from mcp_app.streams.blocking.counting import OwnCounts, count
from mcp_app.streams.connections.keys import is_known

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_own", OwnCounts())


@pytest.mark.parametrize("where", ["redis", "memory", "nowhere"])
def test_event_over_the_limit_waits_until_the_window_ends(
    where: str, clean_redis: str, settings: Any
) -> None:
    url = {"redis": clean_redis, "memory": "", "nowhere": NOWHERE}[where]
    settings.MCP = {**settings.MCP, "REDIS_URL": url}
    assert [count("api/a", 2, 60) for _ in range(2)] == [0.0, 0.0]
    assert 50 < count("api/a", 2, 60) <= 60
    assert count("api/b", 2, 60) == 0.0
    assert count("api/short", 1, 0.05) == 0.0
    wait = count("api/short", 1, 0.05)
    assert 0 < wait <= 0.05
    time.sleep(wait + 0.01)
    assert count("api/short", 1, 0.05) == 0.0


def test_window_is_a_known_key_that_expires(clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    count("api/user:1/key:2", 5, 60)
    count("odd \u202e " * 50, 5, 60)
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        keys = [key.decode() for key in client.scan_iter()]
        assert len(keys) == 2
        assert all(is_known(key) for key in keys)
        assert all(0 < client.pttl(key) <= 60_000 for key in keys)


def test_sync_and_async_code_share_a_window(clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}

    async def hit() -> bool:
        streams = Streams.connect(conf.get().redis_url)
        await streams.start()
        try:
            return await streams.windows.hit("tool/count/user:1", 2, 60)
        finally:
            await streams.close()

    assert asyncio.run(hit())
    assert count("tool/count/user:1", 2, 60) == 0.0
    assert not asyncio.run(hit())
    assert count("tool/count/user:1", 2, 60) > 0


def test_unavailable_redis_is_not_retried_at_once(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": NOWHERE}
    assert not counting._own.redis_is_away()
    count("api/a", 2, 60)
    assert counting._own.redis_is_away()
