"""Redis commands whose replies are not awaited."""

from __future__ import annotations

import redis

from mcp_app.streams import Streams
from mcp_app.streams.connections.keys import KEPT
from tests.streams_contract.waiting import limits


async def test_unawaited_commands_are_sent_before_close(clean_redis: str) -> None:
    streams = Streams.connect(clean_redis, limits())
    await streams.start()
    await streams.log.finish("s", "a", b"x", owner="user:1")
    await streams.close()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        assert client.hexists(KEPT[2], "user:1")


async def test_unawaited_commands_survive_flushed_scripts(
    clean_redis: str,
) -> None:
    streams = Streams.connect(clean_redis, limits())
    await streams.start()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.script_flush()
        await streams.log.finish("s", "a", b"x", owner="user:1")
        await streams.close()
        assert client.hexists(KEPT[2], "user:1")
