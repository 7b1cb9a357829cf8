"""The contract of storage accounts on Redis, and Redis memory limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from mcp_app import conf
from mcp_app.streams import Streams, StreamsFull
from mcp_app.streams.base import QuotaExceeded
from mcp_app.streams.blocking.announce import end_session
from mcp_app.streams.connections.keys import KEPT, session_keys
from mcp_app.streams.stores.storage_quota import admit_now
from mcpsite.redis_server import RedisServer
from tests.streams_contract.storage_quota import *  # noqa: F403
from tests.streams_contract.waiting import limits, until

PRINCIPALS = 200


@pytest.fixture
def small_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", append_only=False, max_memory="64mb")
    server.start()
    yield server
    server.stop()


async def test_many_principals_are_refused_before_redis_is_full(small_redis: RedisServer) -> None:
    streams = Streams.connect(small_redis.url, limits(kept_percent=0))
    await streams.start()
    try:
        refused = 0

        async def fill(owner: str) -> None:
            nonlocal refused
            for number in range(60):
                try:
                    await streams.quota.admit(owner)
                except StreamsFull:
                    refused += 1
                    return
                await streams.log.finish(owner, f"answer-{number}", b"x" * 10_000, owner=owner)
                await asyncio.sleep(0.1)

        await asyncio.gather(*(fill(f"principal-{number}") for number in range(PRINCIPALS)))
        assert refused == PRINCIPALS
        memory = await streams.metrics.memory()
        assert memory is not None
        used, most = memory
        assert 0.8 * most < used < most
        # Jobs, the message log and accepted calls have room.
        assert not await streams.full()
        await streams.messages.push(b"x" * 100_000)
        await streams.log.append("principal-1", "answer-of-a-running-call", b"x" * 100_000)
    finally:
        await streams.close()


async def test_large_responses_of_accepted_calls_leave_redis_room(small_redis: RedisServer) -> None:
    streams = Streams.connect(small_redis.url, limits(kept_percent=0))
    await streams.start()

    async def finish(number: int) -> bool:
        owner = f"user:{number}"
        try:
            await streams.log.finish(f"session-{number}", "answer", b"x" * 7 * 1024 * 1024, owner=owner)
        except QuotaExceeded:
            return False
        return True

    try:
        written = await asyncio.gather(*(finish(number) for number in range(40)))
        assert 1 < sum(written) < 10
        memory = await streams.metrics.memory()
        assert memory is not None
        assert memory[0] < memory[1]
        assert not await streams.full()
        await streams.messages.push(b"x" * 100_000)
        await streams.log.finish("session-100", "answer", b"x" * 10_000, owner="user:100")
    finally:
        await streams.close()


async def test_pending_log_messages_use_a_fifth_of_redis_at_most(
    small_redis: RedisServer,
) -> None:
    streams = Streams.connect(small_redis.url, limits())
    await streams.start()
    try:
        # A few short messages come first, so that the average size is misleading.
        for _ in range(10):
            await streams.messages.push(b"short")
        while not await streams.messages.full():
            await streams.messages.push(b"x" * 1024 * 1024)
        with pytest.raises(StreamsFull):
            await streams.messages.push(b"x")
        assert await streams.messages.depth() > 20
        memory = await streams.metrics.memory()
        assert memory is not None
        used, most = memory
        assert used < most * 0.3
        # Other users are not affected, and the log continues once some messages are written.
        await streams.quota.admit("somebody")
        waiting = await streams.messages.read("", 1_000)
        await streams.messages.trim(waiting[15][0])
        await streams.messages.push(b"x")
    finally:
        await streams.close()


async def test_storage_use_of_principal_reaches_every_process(clean_redis: str) -> None:
    """Small changes are batched; large ones are sent immediately."""
    one, other = (Streams.connect(clean_redis, limits()) for _ in range(2))
    try:
        await asyncio.gather(one.start(), other.start())
        await one.log.finish("x", "small", b"x", owner="user:1")

        async def learned() -> bool:
            return await other.quota.held("user:1") > 0

        await until(learned)
        await one.log.finish("x", "large", b"x" * 100_000, owner="user:1")
        await one.log.head("x", "large")
        assert await other.quota.held("user:1") > 100_000
    finally:
        await asyncio.gather(one.close(), other.close())


async def test_account_outlives_an_ended_session(clean_redis: str) -> None:
    """Account keys expire as a whole: the shorter lifetime would lose the accounts of all principals."""
    streams = Streams.connect(clean_redis, limits(ttl=3_600))
    await streams.start()
    try:
        await streams.sessions.create("s", {"principal": "user:1"}, 60)
        await streams.log.finish("x", "a", b"x", owner="user:1")
        await streams.sessions.end("s", 1)
        assert await streams.quota.held("user:1") > 0  # Pending changes are written by now.
        with redis.Redis.from_url(clean_redis, protocol=2) as client:
            assert [key for key in KEPT if client.ttl(key) < 3_600] == []  # type: ignore[operator]
    finally:
        await streams.close()


def test_session_ended_by_an_operator_counts_for_its_user(clean_redis: str, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.hset(session_keys("ended-by-an-operator").session, "principal", "user:1/key:1")
        for _ in range(2):
            end_session("ended-by-an-operator", "test")
        assert client.hgetall(KEPT[2]) == {b"user:1": b"200"}
        left: Any = client.ttl(session_keys("ended-by-an-operator").session)
        assert conf.get().session_idle_seconds < left <= conf.get().tombstone_seconds


def test_sync_code_is_refused_by_the_same_account(clean_redis: str) -> None:
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        client.hset(KEPT[2], "user:1", 1_000)
    admit_now(clean_redis, limits(kept_bytes=1_000), "user:2/key:1")
    with pytest.raises(QuotaExceeded):
        admit_now(clean_redis, limits(kept_bytes=1_000), "user:1/key:2")


async def test_percentage_quota_applies_below_the_byte_quota(small_redis: RedisServer) -> None:
    streams = Streams.connect(small_redis.url, limits(kept_percent=5))
    await streams.start()
    try:
        for number in range(3):
            await streams.quota.admit("one")
            await streams.log.finish("s", f"answer-{number}", b"x" * 1_500_000, owner="one")
        with pytest.raises(QuotaExceeded):
            await streams.quota.admit("one")
        await streams.quota.admit("two")
    finally:
        await streams.close()
