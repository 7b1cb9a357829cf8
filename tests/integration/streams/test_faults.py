"""Streams when Redis dies, hangs, loses data, fills up or loses messages."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from mcp_app.streams import Position, StreamLimits, Streams, StreamsFull, StreamsUnavailable, StreamUnknown
from mcp_app.streams.connections.keys import Channels
from mcp_app.streams.stores.redis_log import RedisLog
from mcp_app.streams.stores.storage_quota import RedisStorageQuota
from mcpsite.redis_server import RedisServer
from tests.bounds import SLACK
from tests.streams_contract.waiting import until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Start a separate Redis that the test may kill and stop."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def own(server: RedisServer) -> AsyncIterator[Streams]:
    """Return streams on that Redis."""
    streams = Streams.connect(server.url, StreamLimits(slow_poll=0.5))
    await streams.start()
    yield streams
    await streams.close()


def kill(server: RedisServer) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait()


def pid_of(server: RedisServer) -> int:
    assert server.process is not None
    return server.process.pid


def administer(url: str, *command: str) -> Any:
    with redis.Redis.from_url(url, protocol=2) as client:
        return client.execute_command(*command)


async def refused_after(attempt: Any) -> float:
    """Return the seconds until the attempt is refused; fail if it succeeds."""
    began = time.monotonic()
    with pytest.raises(StreamsUnavailable):
        await attempt
    return time.monotonic() - began


async def test_redis_restart_loses_no_stored_event(server: RedisServer, own: Streams) -> None:
    heard: list[Any] = []
    own.hub.subscribe("catalogue", heard.append)
    epoch, _ = await own.log.open("s", "a")
    reader = own.reader("s", "a", epoch, 0)
    received: list[bytes] = []

    async def follow() -> None:
        while not reader.finished:
            received.extend(event.data for event in await reader.next(30))

    following = asyncio.create_task(follow())
    acknowledged = [b"%d" % number for number in range(200)]
    for data in acknowledged:
        await own.log.append("s", "a", data)

    kill(server)
    assert await refused_after(own.log.append("s", "a", b"lost")) < 1.1 + SLACK
    assert not await own.healthy()
    for _ in range(50):
        assert await refused_after(own.sessions.load("s")) < 1.1 + SLACK
    heard.clear()

    began = time.monotonic()
    await asyncio.to_thread(server.start)
    await until(own.healthy, seconds=5)
    await own.log.finish("s", "a", b"end")
    async with asyncio.timeout(5 + SLACK):
        await following
    assert time.monotonic() - began < 5 + SLACK
    assert received == [*acknowledged, b"end"]
    assert {"resync": True} in heard
    reader.close()


async def test_commands_fail_fast_while_redis_is_unavailable(server: RedisServer, own: Streams) -> None:
    kill(server)
    await refused_after(own.sessions.load("s"))
    began = time.monotonic()
    for _ in range(20):
        await refused_after(own.sessions.load("s"))
    assert time.monotonic() - began < 1 + SLACK


async def test_frozen_redis_blocks_callers_for_a_second_at_most(server: RedisServer, own: Streams) -> None:
    await own.log.append("s", "a", b"1")
    os.kill(pid_of(server), signal.SIGSTOP)
    try:
        waits = await asyncio.gather(*(refused_after(own.log.append("s", "a", b"x")) for _ in range(20)))
        assert max(waits) < 2 + SLACK
        assert await refused_after(own.log.append("s", "a", b"x")) < 2 + SLACK
    finally:
        os.kill(pid_of(server), signal.SIGCONT)
    await until(own.healthy)
    assert (await own.log.append("t", "a", b"2")).offset == 1


async def test_streams_start_without_redis_and_connect_later(server: RedisServer) -> None:
    kill(server)
    streams = Streams.connect(server.url)
    async with asyncio.timeout(3):
        await streams.start()
    await refused_after(streams.log.append("s", "a", b"1"))
    await asyncio.to_thread(server.start)
    await until(streams.healthy)
    await streams.close()
    await refused_after(streams.log.append("s", "a", b"1"))


async def test_wrong_password_is_unavailable(server: RedisServer) -> None:
    streams = Streams.connect(f"redis://:wrong@127.0.0.1:{server.port}/0")
    await streams.start()
    assert not await streams.healthy()
    await refused_after(streams.sessions.load("s"))
    with pytest.raises(StreamsUnavailable):
        streams.hub.publish_now("catalogue", {})
    await streams.close()


@pytest.mark.parametrize("command", [("SCRIPT", "FLUSH"), ("FLUSHALL",)])
async def test_flushed_scripts_are_loaded_again(
    streams: Streams, clean_redis: str, command: tuple[str, ...]
) -> None:
    await streams.log.append("s", "a", b"1")
    administer(clean_redis, "SCRIPT", "FLUSH")
    administer(clean_redis, *command)
    results = await asyncio.gather(*(streams.log.append("s", "b", b"%d" % number) for number in range(20)))
    assert [position.offset for position in results] == list(range(1, 21))
    await streams.sessions.create("s", {"a": "b"}, 60)
    assert await streams.windows.hit("k", 1, 60)


async def test_emptied_redis_starts_a_new_epoch(streams: Streams, clean_redis: str) -> None:
    old = await streams.log.append("s", "a", b"1")
    reader = streams.reader("s", "a", old.epoch, old.offset)
    administer(clean_redis, "FLUSHALL")
    new = await streams.log.finish("s", "a", b"end")
    assert new is not None
    assert new.epoch != old.epoch
    with pytest.raises(StreamUnknown):
        await streams.log.read("s", "a", old.epoch, 0)
    with pytest.raises(StreamUnknown):
        await reader.next(5)
    reader.close()


async def test_lost_pubsub_connection_reconnects_and_wakes_readers(
    streams: Streams, clean_redis: str
) -> None:
    heard: list[Any] = []
    streams.hub.subscribe("catalogue", heard.append)
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    waiting = asyncio.create_task(reader.next(60))

    async def told() -> bool:
        await streams.hub.publish("catalogue", {"revision": 1})
        return bool(heard)

    await until(told)
    heard.clear()
    assert administer(clean_redis, "CLIENT", "KILL", "TYPE", "pubsub") >= 1
    await streams.log.append("s", "a", b"while it was away")
    async with asyncio.timeout(3):
        assert [event.data for event in await waiting] == [b"while it was away"]

    async def resynchronised() -> bool:
        return {"resync": True} in heard

    await until(resynchronised)
    reader.close()


@pytest.mark.parametrize(("slow_poll", "expected"), [(60.0, []), (0.3, [b"unannounced"])])
async def test_slow_poll_delivers_an_event_whose_wake_up_was_lost(
    connect: Callable[..., Any], slow_poll: float, expected: list[bytes]
) -> None:
    streams: Streams = await connect(StreamLimits(slow_poll=slow_poll))
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    await until(lambda: _subscribed(streams, "s"))
    assert await reader.next(0.1) == []
    waiting = asyncio.create_task(reader.next(1.5))
    for _ in range(3):  # The reader has polled and found nothing.
        await streams.log.head("s", "a")
    assert streams._batch is not None
    kept = RedisStorageQuota(streams._batch, streams.limits)
    deaf = RedisLog(streams._batch, Channels(77), kept, streams.limits)  # on an unused channel
    await deaf.append("s", "a", b"unannounced")
    assert [event.data for event in await waiting] == expected
    reader.close()


async def _subscribed(streams: Streams, session: str) -> bool:
    assert streams._batch is not None
    channel = Channels(0).wake + session
    return bool((await streams._batch.command("PUBSUB", "NUMSUB", channel))[1])


async def test_channel_of_an_unwatched_session_is_unsubscribed(connect: Callable[..., Any]) -> None:
    streams: Streams = await connect(StreamLimits(slow_poll=0.1))
    reader = streams.reader("s", "a", 1, 0)
    await until(lambda: _subscribed(streams, "s"))
    reader.close()

    async def left() -> bool:
        return not await _subscribed(streams, "s")

    await until(left)
    reader = streams.reader("s", "a", 1, 0)
    await until(lambda: _subscribed(streams, "s"))
    reader.close()


async def test_full_redis_refuses_progress_and_accepts_responses(streams: Streams, clean_redis: str) -> None:
    epoch, _ = await streams.log.append("s", "running", b"before")
    await streams.requests.open("s", "r", 60)
    _, before = administer(clean_redis, "CONFIG", "GET", "maxmemory")
    administer(clean_redis, "CONFIG", "SET", "maxmemory", "1")
    try:
        for attempt in (streams.log.append("s", "running", b"x"), streams.log.open("s", "new")):
            with pytest.raises(StreamsFull):
                await attempt
        assert await streams.full()
        assert not await streams.healthy()
        assert await streams.log.finish("s", "running", b"answer") == Position(epoch, 2)
        assert await streams.log.finish("s", "never-opened", b"answer") is not None
        assert await streams.requests.answer("s", "r", b"answer")
        assert await streams.requests.wait("s", "r", 1) == b"answer"
    finally:
        administer(clean_redis, "CONFIG", "SET", "maxmemory", before.decode())
    assert not await streams.full()
    assert [event.data for event in (await streams.log.read("s", "running", epoch, 0)).events] == [
        b"before",
        b"answer",
    ]


async def test_events_without_metadata_are_not_mixed_with_a_new_epoch(
    streams: Streams, clean_redis: str
) -> None:
    old = await streams.log.append("s", "a", b"old")
    administer(clean_redis, "DEL", "mcp:{s}:meta:a")
    new = await streams.log.append("s", "a", b"new")
    assert new.epoch != old.epoch
    assert [event.data for event in (await streams.log.read("s", "a", new.epoch, 0)).events] == [b"new"]


async def test_newest_event_survives_external_deletion_of_older_ones(
    connect: Callable[..., Any], clean_redis: str
) -> None:
    streams: Streams = await connect(StreamLimits(events=3, event_bytes=100))
    for _ in range(3):
        epoch, _ = await streams.log.append("s", "a", b"x" * 30)
    administer(clean_redis, "DEL", "mcp:{s}:stream:a")
    assert await streams.log.finish("s", "a", b"answer") == Position(epoch, 4)
    page = await streams.log.read("s", "a", epoch, 0)
    assert [(event.offset, event.data) for event in page.events] == [(4, b"answer")]
    assert page.gap


async def test_1000_sessions_are_subscribed_once_each(streams: Streams, clean_redis: str) -> None:
    readers = [streams.reader(f"s{number}", "a", 1, 0) for number in range(1000) for _ in range(2)]
    await until(lambda: _subscribed(streams, "s999"))
    calls = administer(clean_redis, "INFO", "commandstats")["cmdstat_subscribe"]["calls"]
    assert len(administer(clean_redis, "PUBSUB", "CHANNELS", "mcp:0:wake:*")) == 1000
    readers.append(streams.reader("s0", "b", 1, 0))
    await streams.log.open("s0", "b")
    assert administer(clean_redis, "INFO", "commandstats")["cmdstat_subscribe"]["calls"] == calls
    for reader in readers:
        reader.close()
