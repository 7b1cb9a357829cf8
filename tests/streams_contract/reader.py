"""The contract of every reader of an event stream."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_app.streams import Reader, Streams, StreamUnknown
from mcp_app.streams.base import PAGE_EVENTS
from tests.streams_contract.waiting import Connect, limits


async def test_reader_gets_stored_and_then_new_events(connect: Connect) -> None:
    here, there = await connect(), await connect()
    epoch, _ = await there.log.append("s", "a", b"stored")
    reader = here.reader("s", "a", epoch, 0)
    assert [event.data for event in await reader.next(5)] == [b"stored"]
    waiting = asyncio.create_task(reader.next(5))
    await there.log.append("s", "a", b"live")
    async with asyncio.timeout(2):
        assert [event.data for event in await waiting] == [b"live"]
    await there.log.finish("s", "a", b"end")
    assert [event.kind for event in await reader.next(5)] == ["final"]
    assert (reader.finished, reader.gap, reader.cursor) == (True, False, 3)
    assert await reader.next(5) == []
    reader.close()
    reader.close()


async def test_reader_wait_is_bounded(streams: Streams) -> None:
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    async with asyncio.timeout(2):
        assert await reader.next(0.05) == []
        assert await reader.next(0) == []
    assert not reader.finished
    reader.close()


async def test_reader_starting_after_final_event_is_finished(streams: Streams) -> None:
    position = await streams.log.finish("s", "a", b"end")
    assert position is not None
    reader = streams.reader("s", "a", *position)
    assert await reader.next(60) == []
    assert reader.finished
    reader.close()


async def test_reader_reports_gap_of_trimmed_events(connect: Connect) -> None:
    streams = await connect(limits(events=2))
    for _ in range(4):
        epoch, _ = await streams.log.append("s", "a", b"x")
    reader = streams.reader("s", "a", epoch, 0)
    assert [event.offset for event in await reader.next(1)] == [3, 4]
    assert reader.gap
    reader.close()


async def test_reader_returns_bounded_pages_in_order(streams: Streams) -> None:
    for number in range(PAGE_EVENTS * 2 + 1):
        epoch, _ = await streams.log.append("s", "a", b"%d" % number)
    reader = streams.reader("s", "a", epoch, 0)
    pages = [[int(event.data) for event in await reader.next(5)] for _ in range(3)]
    assert [len(page) for page in pages] == [PAGE_EVENTS, PAGE_EVENTS, 1]
    assert [number for page in pages for number in page] == [*range(PAGE_EVENTS * 2 + 1)]
    reader.close()


async def test_two_readers_of_one_stream_each_get_every_event(connect: Connect) -> None:
    here, there = await connect(), await connect()
    epoch, _ = await here.log.open("s", "a")
    readers = [here.reader("s", "a", epoch, 0), there.reader("s", "a", epoch, 0)]
    waiting = [asyncio.create_task(reader.next(5)) for reader in readers]
    await here.log.append("s", "a", b"x")
    assert [[event.offset for event in await each] for each in waiting] == [[1], [1]]
    for reader in readers:
        reader.close()


async def test_reader_ignores_events_of_other_streams(streams: Streams) -> None:
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    await streams.log.append("s", "b", b"x")
    await streams.log.append("t", "a", b"x")
    assert await reader.next(0.05) == []
    reader.close()


async def test_poked_reader_returns_soon_without_events(streams: Streams) -> None:
    epoch, _ = await streams.log.open("s", "a")
    reader = streams.reader("s", "a", epoch, 0)
    waiting = asyncio.create_task(reader.next(60))
    asyncio.get_running_loop().call_later(0.01, reader.poke)
    async with asyncio.timeout(2):
        assert await waiting == []
    reader.close()


@pytest.mark.requirement("SES-07")
@pytest.mark.parametrize("how", ["drop", "end"])
async def test_loss_of_stream_reaches_waiting_reader_within_a_second(connect: Connect, how: str) -> None:
    here, there = await connect(), await connect()
    await here.sessions.create("s", {"a": "b"}, 60)
    epoch, _ = await here.log.open("s", "a")
    reader = here.reader("s", "a", epoch, 0)
    assert await reader.next(0.05) == []
    waiting = asyncio.create_task(reader.next(60))
    await (there.log.drop("s", "a") if how == "drop" else there.sessions.end("s", 60))
    async with asyncio.timeout(1):
        with pytest.raises(StreamUnknown):
            await waiting
    reader.close()


async def test_stream_with_reader_does_not_expire(connect: Connect) -> None:
    streams = await connect(limits(ttl=1))
    epoch, _ = await streams.log.open("s", "read")
    await streams.log.open("s", "left")
    reader = streams.reader("s", "read", epoch, 0)
    async with asyncio.timeout(5):
        while await streams.log.head("s", "left") is not None:
            assert await reader.next(0.1) == []
    assert await reader.next(0.1) == []
    reader.close()


async def receive_all(open_reader: Callable[[int], Reader], dice: random.Random) -> list[int]:
    """Receive all events, disconnecting at random within pages and resuming."""
    received: list[int] = []
    while True:
        reader = open_reader(received[-1] if received else 0)
        for _ in range(dice.randint(1, 3)):
            events = await reader.next(dice.choice([0, 0.001, 0.05]))
            kept = events[: dice.randint(0, len(events))] if dice.random() < 0.5 else events
            received += [event.offset for event in kept]
            if len(kept) < len(events):
                break
            if reader.finished:
                reader.close()
                return received
        reader.close()


@pytest.mark.requirement("T-RES-06")
@given(seed=st.integers(0, 2**32), count=st.integers(0, 60), readers=st.integers(1, 3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_event_is_received_once_in_order_despite_disconnects(
    start: Callable[[], Streams], seed: int, count: int, readers: int
) -> None:
    dice = random.Random(seed)
    session = f"property-{seed}-{count}-{readers}"

    async def scenario() -> None:
        writer, reading = start(), start()
        await writer.start()
        if reading is not writer:
            await reading.start()
        epoch, _ = await writer.log.open(session, "a")
        clients = [
            asyncio.create_task(receive_all(lambda after: reading.reader(session, "a", epoch, after), dice))
            for _ in range(readers)
        ]
        for _ in range(count):
            await writer.log.append(session, "a", b"x")
            await asyncio.sleep(dice.choice([0, 0, 0.001]))
        await writer.log.finish(session, "a", b"end")
        async with asyncio.timeout(20):
            for received in await asyncio.gather(*clients):
                assert received == list(range(1, count + 2))
        await writer.close()
        await reading.close()

    asyncio.run(scenario())
