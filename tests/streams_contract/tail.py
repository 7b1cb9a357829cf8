"""What every tail of the message log must do."""

from __future__ import annotations

import asyncio

from mcp_app.streams import Streams
from tests.streams_contract.waiting import Connect


async def test_what_is_pushed_anywhere_comes_in_order_after_a_place(connect: Connect) -> None:
    here, there = await connect(), await connect()
    place = await here.tail.newest()
    for number in range(5):
        await (here, there)[number % 2].messages.push(b"%d" % number)
    first = await here.tail.after(place, 2, 5)
    assert [batch for _, batch in first] == [b"0", b"1"]
    rest = await here.tail.after(first[-1][0], 10, 5)
    assert [batch for _, batch in rest] == [b"2", b"3", b"4"]
    assert await here.messages.depth() == 5


async def test_who_waits_has_the_next_batch_at_once(connect: Connect) -> None:
    here, there = await connect(), await connect()
    waiting = asyncio.create_task(here.tail.after(await here.tail.newest(), 10, 30))
    await asyncio.sleep(0)
    await there.messages.push(b"news")
    async with asyncio.timeout(2):
        assert [batch for _, batch in await waiting] == [b"news"]


async def test_waiting_ends_in_time_when_nothing_comes(streams: Streams) -> None:
    await streams.messages.push(b"old")
    assert list(await streams.tail.after(await streams.tail.newest(), 10, 0.05)) == []


async def test_the_newest_place_stays_when_everything_was_written_and_trimmed(streams: Streams) -> None:
    await streams.messages.push(b"0")
    (entry,) = await streams.messages.read("0", 1)
    await streams.messages.trim(entry[0])
    assert await streams.messages.depth() == 0
    assert await streams.tail.newest() == entry[0]
    await streams.messages.push(b"1")
    assert [batch for _, batch in await streams.tail.after(entry[0], 10, 5)] == [b"1"]


async def test_the_beginning_is_a_place_too(streams: Streams) -> None:
    assert await streams.tail.newest() == "0-0"
    await streams.messages.push(b"0")
    assert [batch for _, batch in await streams.tail.after("0-0", 10, 5)] == [b"0"]


async def test_a_closed_tail_can_be_used_again(streams: Streams) -> None:
    await streams.tail.after("0-0", 10, 0.01)
    await streams.tail.close()
    await streams.tail.close()
    await streams.messages.push(b"0")
    assert [batch for _, batch in await streams.tail.after("0-0", 10, 5)] == [b"0"]
