"""Viewers connect and disconnect while messages arrive, on Redis: none blocks, and nothing is left."""

from __future__ import annotations

import asyncio

import orjson
import pytest
import redis

from mcp_app.console.feed import Feed
from mcp_app.console.viewer import Viewer
from mcp_app.message_log.search.language import Search
from mcp_app.streams import Streams
from tests.unit.console.lines import encoded, fields

# The feed looks up the names in lines.
pytestmark = pytest.mark.django_db

ROUNDS = 150


async def test_concurrent_watchers_never_block_each_other(clean_redis: str) -> None:
    streams = Streams.connect(clean_redis)
    await streams.start()
    feed = Feed(streams)
    done = asyncio.Event()

    async def push() -> None:
        number = 0
        while not done.is_set():
            await streams.messages.push(encoded(fields(), before=number))
            await streams.messages.trim(await streams.tail.newest())
            number += 1

    async def watch(patience: int) -> None:
        for _ in range(ROUNDS):
            viewer = Viewer()
            viewer.watch_messages(Search(), "")
            await feed.join(viewer)
            for _ in range(patience):
                await asyncio.sleep(0)
            await feed.leave(viewer)

    pushing = asyncio.create_task(push())
    async with asyncio.timeout(60):
        await asyncio.gather(*(watch(patience) for patience in (0, 1, 3, 10)))
        viewer = Viewer()
        viewer.watch_messages(Search(), "")
        await feed.join(viewer)
        while not (frame := orjson.loads(await viewer.next_frame()))["rows"]:
            viewer.drawn(frame["frame"])
        await feed.leave(viewer)
    done.set()
    await pushing
    await streams.close()
    with redis.Redis.from_url(clean_redis, protocol=2) as client:
        assert [each for each in client.client_list() if "b" in each["flags"]] == []
