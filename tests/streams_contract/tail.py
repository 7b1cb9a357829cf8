"""The contract of every tail of the message log."""

from __future__ import annotations

import asyncio

from mcp_app.streams import Streams
from tests.streams_contract.waiting import Connect


async def test_batches_of_all_processes_arrive_in_order_after_position(connect: Connect) -> None:
    here, there = await connect(), await connect()
    place = await here.tail.newest()
    for number in range(5):
        await (here, there)[number % 2].messages.push(b"%d" % number)
    first = await here.tail.after(place, 2, 5)
    assert [batch for _, batch in first] == [b"0", b"1"]
    rest = await here.tail.after(first[-1][0], 10, 5)
    assert [batch for _, batch in rest] == [b"2", b"3", b"4"]
    assert await here.messages.depth() == 5


async def test_waiting_tail_gets_next_batch_immediately(connect: Connect) -> None:
    here, there = await connect(), await connect()
    waiting = asyncio.create_task(here.tail.after(await here.tail.newest(), 10, 30))
    await asyncio.sleep(0)
    await there.messages.push(b"news")
    async with asyncio.timeout(2):
        assert [batch for _, batch in await waiting] == [b"news"]


async def test_wait_is_bounded_without_news(streams: Streams) -> None:
    await streams.messages.push(b"old")
    assert list(await streams.tail.after(await streams.tail.newest(), 10, 0.05)) == []


async def test_newest_position_survives_trimming(streams: Streams) -> None:
    await streams.messages.push(b"0")
    (entry,) = await streams.messages.read("0", 1)
    await streams.messages.trim(entry[0])
    assert await streams.messages.depth() == 0
    assert await streams.tail.newest() == entry[0]
    await streams.messages.push(b"1")
    assert [batch for _, batch in await streams.tail.after(entry[0], 10, 5)] == [b"1"]


async def test_start_of_empty_log_is_valid_position(streams: Streams) -> None:
    assert await streams.tail.newest() == "0-0"
    await streams.messages.push(b"0")
    assert [batch for _, batch in await streams.tail.after("0-0", 10, 5)] == [b"0"]


async def test_closed_tail_is_reusable(streams: Streams) -> None:
    await streams.tail.after("0-0", 10, 0.01)
    await streams.tail.close()
    await streams.tail.close()
    await streams.messages.push(b"0")
    assert [batch for _, batch in await streams.tail.after("0-0", 10, 5)] == [b"0"]
