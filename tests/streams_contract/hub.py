"""The contract of every hub."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_app.streams import Streams
from tests.streams_contract.waiting import Connect, until


def collector(streams: Streams, topic: str) -> list[Any]:
    heard: list[Any] = []
    streams.hub.subscribe(topic, heard.append)
    return heard


async def test_broadcast_reaches_every_process_on_its_topic_only(connect: Connect) -> None:
    here, there = await connect(), await connect()
    heard, also = collector(here, "catalogue"), collector(there, "catalogue")
    other = collector(there, "session")

    async def both() -> bool:
        await here.hub.publish("catalogue", {"revision": 7})
        return {"revision": 7} in heard and {"revision": 7} in also

    await until(both)
    assert {"revision": 7} not in other


async def test_thread_without_event_loop_can_broadcast(streams: Streams) -> None:
    heard = collector(streams, "catalogue")

    async def told() -> bool:
        await asyncio.to_thread(streams.hub.publish_now, "catalogue", {"revision": 8})
        return {"revision": 8} in heard

    await until(told)


async def test_unsubscribed_callback_receives_nothing(streams: Streams) -> None:
    gone: list[Any] = []
    stop = streams.hub.subscribe("catalogue", gone.append)
    heard = collector(streams, "catalogue")
    stop()
    stop()

    async def told() -> bool:
        await streams.hub.publish("catalogue", {"revision": 9})
        return {"revision": 9} in heard

    await until(told)
    assert gone == []


async def test_failing_callback_does_not_block_others(streams: Streams) -> None:
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def broken(payload: dict[str, Any]) -> None:
        raise LookupError(str(payload))

    streams.hub.subscribe("catalogue", broken)
    heard = collector(streams, "catalogue")

    async def told() -> bool:
        await streams.hub.publish("catalogue", {"revision": 1})
        return len([each for each in heard if "revision" in each]) >= 2

    await until(told)
    assert {type(fault) for fault in faults} == {LookupError}


async def test_news_between_check_and_wait_are_not_lost(streams: Streams) -> None:
    watch = streams.hub.watch("s", "a")
    await streams.log.open("s", "a")
    watch.news = False
    await streams.log.append("s", "a", b"x")
    async with asyncio.timeout(2):
        assert await watch.wait(60)
        assert await watch.wait(60)
    watch.close()
    watch.close()
