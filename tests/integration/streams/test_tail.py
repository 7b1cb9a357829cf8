"""The contract of the tail on Redis, and outages of Redis."""

from __future__ import annotations

import asyncio

import pytest
import redis

from mcp_app.streams import Streams, StreamsUnavailable
from mcp_app.streams.stores.message_queue import SyncMessageQueue
from tests.streams_contract.tail import *  # noqa: F403


async def test_cut_connection_is_an_outage_and_the_next_read_works(
    streams: Streams, clean_redis: str
) -> None:
    waiting = asyncio.create_task(streams.tail.after("0-0", 10, 30))
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        while not (blocked := [each for each in client.client_list() if "b" in each["flags"]]):
            await asyncio.sleep(0.01)
        # The client retries a cut connection once.
        while not waiting.done():
            for each in [each for each in client.client_list() if "b" in each["flags"]]:
                client.client_kill_filter(_id=each["id"])
            await asyncio.sleep(0.01)
    assert blocked
    with pytest.raises(StreamsUnavailable):
        await waiting
    await streams.messages.push(b"0")
    assert [batch for _, batch in await streams.tail.after("0-0", 10, 5)] == [b"0"]


async def test_sync_queue_reads_pending_messages(streams: Streams, clean_redis: str) -> None:
    for number in range(5):
        await streams.messages.push(b"%d" % number)
    queue = SyncMessageQueue(clean_redis)
    try:
        found = queue.newest(2)
        assert [batch for _, batch in found] == [b"3", b"4"]
        assert queue.one(found[0][0]) == b"3"
        assert queue.one("1-1") is None
        with pytest.raises(ValueError, match="two numbers"):
            queue.one("+")
    finally:
        queue.close()
