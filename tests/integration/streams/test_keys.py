"""Redis keys: each is listed, expires and is bounded; found by scanning after using every feature."""

from __future__ import annotations

import asyncio

import pytest
import redis

from mcp_app.streams import Streams
from mcp_app.streams.blocking import projects
from mcp_app.streams.connections.keys import is_known
from mcp_app.streams.stores.message_queue import SyncMessageQueue


async def use_everything(streams: Streams, redis_url: str) -> None:
    for session in ("one", "two", "ended"):
        await streams.sessions.create(session, {"principal": "user:1"}, 60)
        await streams.sessions.update(session, {"log_level": "info"})
        await streams.sessions.touch(session, 60)
        await streams.sessions.add_subscription(session, "demo://1", 5)
        await streams.log.open(session, "open")
        await streams.log.append(session, "written", b"x")
        await streams.log.finish(session, "done", b"x")
        await streams.log.keep(session, "done")
        await streams.requests.open(session, "asked", 60)
        await streams.requests.open(session, "answered", 60)
        await streams.requests.answer(session, "answered", b"{}")
    await streams.sessions.end("ended", 60)
    await streams.windows.hit("calls/user:1", 5, 60)
    await streams.windows.hit("x" * 500, 5, 60)
    await streams.windows.acquire("listener/one", "token", 1, 60)
    await streams.messages.push(b"batch")
    await streams.metrics.add("process", 1, [("tool ", "echo", " ok", 1)], b"{}")
    await streams.healthy()
    await asyncio.to_thread(projects.register, redis_url)


@pytest.mark.requirement("T-RES-08")
async def test_every_key_is_listed_and_expires(streams: Streams, clean_redis: str) -> None:
    await use_everything(streams, clean_redis)
    with redis.Redis.from_url(clean_redis, protocol=2, decode_responses=True) as client:
        keys = sorted(client.scan_iter())
        assert len(keys) > 20
        assert [key for key in keys if not is_known(key)] == []
        assert [key for key in keys if not 0 < client.ttl(key) <= 7 * 86_400] == []


@pytest.mark.requirement("SES-07")
async def test_ended_session_leaves_only_its_tombstone(streams: Streams, clean_redis: str) -> None:
    await use_everything(streams, clean_redis)
    with redis.Redis.from_url(clean_redis, protocol=2, decode_responses=True) as client:
        assert list(client.scan_iter("*{ended}*")) == ["mcp:{ended}:session"]
        assert "ended" not in client.zrange("mcp:places:sessions", 0, -1)


async def test_session_index_drops_expired_streams(streams: Streams, clean_redis: str) -> None:
    with redis.Redis.from_url(clean_redis, protocol=2, decode_responses=True) as client:
        client.zadd("mcp:{s}:index", {f"stream:old-{number}": 1 for number in range(50)})
        await streams.log.append("s", "new", b"x")
        assert client.zrange("mcp:{s}:index", 0, -1) == ["stream:new"]


async def test_thread_drains_messages_queued_by_the_event_loop(streams: Streams, clean_redis: str) -> None:
    for number in range(5):
        await streams.messages.push(b"%d" % number)

    def drain() -> list[bytes]:
        queue = SyncMessageQueue(clean_redis)
        first = queue.read("0-0", 3)
        queue.trim(first[-1][0])
        rest = queue.read(first[-1][0], 10)
        assert queue.depth() == 2
        queue.close()
        return [batch for _, batch in (*first, *rest)]

    assert await asyncio.to_thread(drain) == [b"0", b"1", b"2", b"3", b"4"]
