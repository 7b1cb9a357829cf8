"""The contract of the account of kept streams, on Redis, and what only Redis has: a bound on its memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_app.streams import Streams, StreamsFull
from mcp_app.streams.base import KeptFull
from mcpsite.redis_server import RedisServer
from tests.streams_contract.kept import *  # noqa: F403
from tests.streams_contract.waiting import limits

PRINCIPALS = 200


@pytest.fixture
def small_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", append_only=False, max_memory="64mb")
    server.start()
    yield server
    server.stop()


async def test_many_principals_together_are_refused_before_redis_is_full(small_redis: RedisServer) -> None:
    streams = Streams.connect(small_redis.url, limits(kept_percent=0))
    await streams.start()
    try:
        refused = 0

        async def fill(owner: str) -> None:
            nonlocal refused
            for number in range(60):
                try:
                    await streams.kept.admit(owner)
                except StreamsFull:
                    refused += 1
                    return
                await streams.log.finish(owner, f"answer-{number}", b"x" * 10_000, owner=owner)
                await asyncio.sleep(0.1)

        await asyncio.gather(*(fill(f"principal-{number}") for number in range(PRINCIPALS)))
        assert refused == PRINCIPALS
        memory = await streams.figures.memory()
        assert memory is not None
        used, most = memory
        assert 0.8 * most < used < most
        # Jobs, the message log and accepted calls have room.
        assert not await streams.full()
        await streams.messages.push(b"x" * 100_000)
        await streams.log.append("principal-1", "answer-of-a-running-call", b"x" * 100_000)
    finally:
        await streams.close()


async def test_a_share_of_a_small_redis_is_less_than_the_bound_in_bytes(small_redis: RedisServer) -> None:
    streams = Streams.connect(small_redis.url, limits(kept_percent=5))
    await streams.start()
    try:
        for number in range(3):
            await streams.kept.admit("one")
            await streams.log.finish("s", f"answer-{number}", b"x" * 1_500_000, owner="one")
        with pytest.raises(KeptFull):
            await streams.kept.admit("one")
        await streams.kept.admit("two")
    finally:
        await streams.close()
