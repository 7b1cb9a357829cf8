"""What Redis is told without anybody who waits for the reply."""

from __future__ import annotations

import redis

from mcp_app.streams import Streams
from mcp_app.streams.connections.keys import KEPT
from tests.streams_contract.waiting import limits


async def test_what_nobody_waits_for_is_told_before_the_connection_is_closed(clean_redis: str) -> None:
    streams = Streams.connect(clean_redis, limits())
    await streams.start()
    await streams.log.finish("s", "a", b"x", owner="user:1")
    await streams.close()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        assert client.hexists(KEPT[2], "user:1")


async def test_what_nobody_waits_for_is_told_also_when_redis_has_forgotten_the_script(
    clean_redis: str,
) -> None:
    streams = Streams.connect(clean_redis, limits())
    await streams.start()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.script_flush()
        await streams.log.finish("s", "a", b"x", owner="user:1")
        await streams.close()
        assert client.hexists(KEPT[2], "user:1")
