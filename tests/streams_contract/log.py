"""The contract of every event log."""

from __future__ import annotations

import asyncio

import pytest

from mcp_app.streams import Position, StreamFinished, Streams, StreamUnknown
from mcp_app.streams.base import BadName
from tests.streams_contract.waiting import Connect, limits, until


async def offsets(streams: Streams, epoch: int, after: int = 0, *, count: int = 200) -> list[int]:
    return [event.offset for event in (await streams.log.read("s", "a", epoch, after, count)).events]


@pytest.mark.requirement("T-RES-06")
async def test_events_are_numbered_from_one_in_append_order(streams: Streams) -> None:
    positions = [await streams.log.append("s", "a", b"%d" % number) for number in range(1, 6)]
    epoch = positions[0].epoch
    assert positions == [Position(epoch, number) for number in range(1, 6)]
    page = await streams.log.read("s", "a", epoch, 0)
    assert [(event.offset, event.kind, event.data) for event in page.events] == [
        (number, "message", b"%d" % number) for number in range(1, 6)
    ]
    assert (page.finished, page.gap) == (False, False)
    assert await streams.log.head("s", "a") == positions[-1]


async def test_open_returns_position_before_first_event_and_keeps_stream(streams: Streams) -> None:
    opened = await streams.log.open("s", "a")
    assert opened.offset == 0
    assert (await streams.log.append("s", "a", b"x")).epoch == opened.epoch
    assert await streams.log.open("s", "a") == opened
    assert await offsets(streams, opened.epoch) == [1]


@pytest.mark.parametrize(
    ("after", "count", "expected"),
    [
        (0, 2, [1, 2]),
        (2, 2, [3, 4]),
        (4, 200, [5]),
        (5, 200, []),
        (9, 200, []),
    ],
)
async def test_read_continues_after_offset(
    streams: Streams, after: int, count: int, expected: list[int]
) -> None:
    for _ in range(5):
        epoch = (await streams.log.append("s", "a", b"x")).epoch
    assert await offsets(streams, epoch, after, count=count) == expected


@pytest.mark.parametrize("data", [b"", b"\x00\r\n\xff", "ünïcode".encode(), b"x" * 300_000])
async def test_arbitrary_bytes_round_trip(streams: Streams, data: bytes) -> None:
    epoch, _ = await streams.log.append("s", "a", data)
    assert (await streams.log.read("s", "a", epoch, 0)).events[0].data == data


@pytest.mark.parametrize("kind", ["close", "follow"])
async def test_event_of_other_kind_keeps_its_place_and_ends_nothing(streams: Streams, kind: str) -> None:
    epoch, _ = await streams.log.append("s", "a", b"1000", kind=kind)
    await streams.log.append("s", "a", b"more")
    page = await streams.log.read("s", "a", epoch, 0)
    assert [event.kind for event in page.events] == [kind, "message"]
    assert not page.finished


@pytest.mark.requirement("T-RES-07")
async def test_final_event_ends_stream_for_writers_and_readers(streams: Streams) -> None:
    epoch, _ = await streams.log.append("s", "a", b"1")
    assert await streams.log.finish("s", "a", b"end") == Position(epoch, 2)
    with pytest.raises(StreamFinished):
        await streams.log.append("s", "a", b"late")
    page = await streams.log.read("s", "a", epoch, 0)
    assert [event.kind for event in page.events] == ["message", "final"]
    assert page.finished
    assert not (await streams.log.read("s", "a", epoch, 0, 1)).finished
    late = await streams.log.read("s", "a", epoch, 2)
    assert (late.events, late.finished) == ([], True)


async def test_finish_creates_missing_stream(streams: Streams) -> None:
    position = await streams.log.finish("s", "a", b"")
    assert position is not None
    assert position.offset == 1
    assert (await streams.log.read("s", "a", position.epoch, 0)).finished


async def test_exactly_one_of_racing_finishes_succeeds(connect: Connect) -> None:
    processes = [await connect() for _ in range(2)]
    for round_number in range(25):
        results = await asyncio.gather(
            *(
                processes[number % 2].log.finish("s", f"a{round_number}", b"%d" % number)
                for number in range(8)
            )
        )
        winners = [result for result in results if result is not None]
        assert len(winners) == 1
        events = (await processes[0].log.read("s", f"a{round_number}", winners[0].epoch, 0)).events
        winner = results.index(winners[0])
        assert [(event.kind, event.data) for event in events] == [("final", b"%d" % winner)]


async def test_writer_with_older_fence_changes_nothing(streams: Streams) -> None:
    epoch, _ = await streams.log.append("s", "a", b"first attempt", fence=1)
    await streams.log.append("s", "a", b"second attempt", fence=2)
    with pytest.raises(StreamFinished):
        await streams.log.append("s", "a", b"frozen writer wakes", fence=1)
    with pytest.raises(StreamFinished):
        await streams.log.append("s", "a", b"writer without attempt")
    assert await streams.log.finish("s", "a", b"frozen writer ends", fence=1) is None
    assert await offsets(streams, epoch) == [1, 2]
    assert await streams.log.finish("s", "a", b"end", fence=2) == Position(epoch, 3)


async def test_raised_fence_stops_earlier_attempts(
    streams: Streams,
) -> None:
    await streams.log.append("s", "a", b"first attempt", fence=1)
    await streams.log.keep("s", "a", fence=2)
    await streams.log.keep("s", "a")  # A reader does not lower the fence.
    with pytest.raises(StreamFinished):
        await streams.log.append("s", "a", b"frozen writer wakes", fence=1)
    await streams.log.append("s", "a", b"second attempt", fence=2)


async def test_finish_without_fence_beats_any_attempt(streams: Streams) -> None:
    epoch, _ = await streams.log.append("s", "a", b"attempt", fence=7)
    assert await streams.log.finish("s", "a", b"cancelled") == Position(epoch, 2)


async def test_recreated_stream_rejects_old_positions(streams: Streams) -> None:
    old = await streams.log.append("s", "a", b"1")
    await streams.log.drop("s", "a")
    assert await streams.log.head("s", "a") is None
    with pytest.raises(StreamUnknown):
        await streams.log.read("s", "a", old.epoch, 0)
    new = await streams.log.append("s", "a", b"2")
    assert new.epoch != old.epoch
    assert new.offset == 1
    with pytest.raises(StreamUnknown):
        await streams.log.read("s", "a", old.epoch, 0)


@pytest.mark.requirement("T-RES-03")
async def test_same_stream_name_in_two_sessions_is_two_streams(streams: Streams) -> None:
    mine = await streams.log.append("mine", "a", b"mine")
    theirs = await streams.log.append("theirs", "a", b"theirs")
    assert [event.data for event in (await streams.log.read("mine", "a", mine.epoch, 0)).events] == [b"mine"]
    with pytest.raises(StreamUnknown):
        await streams.log.read("mine", "a", theirs.epoch, 0)


@pytest.mark.requirement("T-RES-08")
async def test_oldest_events_are_trimmed_by_count_and_gap_is_reported(connect: Connect) -> None:
    streams = await connect(limits(events=3))
    for number in range(1, 6):
        epoch, _ = await streams.log.append("s", "a", b"%d" % number)
    page = await streams.log.read("s", "a", epoch, 0)
    assert [event.offset for event in page.events] == [3, 4, 5]
    assert page.gap
    assert (await streams.log.read("s", "a", epoch, 1)).gap
    assert not (await streams.log.read("s", "a", epoch, 2)).gap


@pytest.mark.requirement("T-RES-08")
async def test_oldest_events_are_trimmed_by_size(connect: Connect) -> None:
    streams = await connect(limits(event_bytes=100))
    for _ in range(5):
        epoch, _ = await streams.log.append("s", "a", b"x" * 40)
    assert await offsets(streams, epoch) == [4, 5]
    await streams.log.append("s", "a", b"x" * 500)
    assert await offsets(streams, epoch) == [6]
    await streams.log.append("s", "a", b"small")
    assert await offsets(streams, epoch) == [7]


@pytest.mark.parametrize("answer", [b"", b"x" * 10, b"x" * 5000])
async def test_final_event_is_never_trimmed(connect: Connect, answer: bytes) -> None:
    streams = await connect(limits(events=2, event_bytes=100))
    for _ in range(5):
        epoch, _ = await streams.log.append("s", "a", b"x" * 40)
    await streams.log.finish("s", "a", answer)
    page = await streams.log.read("s", "a", epoch, 0)
    assert (page.events[-1].kind, page.events[-1].offset, page.events[-1].data) == ("final", 6, answer)
    assert page.finished
    assert page.gap


async def test_ended_session_accepts_no_events(streams: Streams) -> None:
    await streams.sessions.create("s", {"a": "b"}, 60)
    epoch, _ = await streams.log.append("s", "a", b"1")
    await streams.sessions.end("s", 60)
    with pytest.raises(StreamUnknown):
        await streams.log.read("s", "a", epoch, 0)
    with pytest.raises(StreamFinished):
        await streams.log.append("s", "a", b"2")
    with pytest.raises(StreamFinished):
        await streams.log.open("s", "b")
    assert await streams.log.finish("s", "a", b"end") is None


async def test_unused_stream_expires(connect: Connect) -> None:
    streams = await connect(limits(ttl=2))
    await streams.log.append("s", "a", b"1")
    assert await streams.log.head("s", "a") is not None

    async def gone() -> bool:
        return await streams.log.head("s", "a") is None

    await until(gone)


async def test_keep_extends_stream_but_creates_no_stream(connect: Connect) -> None:
    streams = await connect(limits(ttl=1))
    await streams.log.append("s", "kept", b"1")
    await streams.log.append("s", "left", b"1")
    await streams.log.keep("s", "absent")
    assert await streams.log.head("s", "absent") is None

    async def gone() -> bool:
        await streams.log.keep("s", "kept")
        return await streams.log.head("s", "left") is None

    await until(gone)
    assert await streams.log.head("s", "kept") is not None


@pytest.mark.parametrize(
    ("session", "stream"),
    [
        ("", "a"),
        ("s}:x", "a"),
        ("{s", "a"),
        ("s:x", "a"),
        ("s s", "a"),
        ("s\n", "a"),
        ("ä", "a"),
        ("s" * 129, "a"),
        ("s", ""),
        ("s", "A"),
        ("s", "a:b"),
        ("s", "a\n"),
        ("s", "a" * 41),
        ("s", "*"),
    ],
)
async def test_key_forging_name_is_rejected(streams: Streams, session: str, stream: str) -> None:
    for attempt in (
        streams.log.append(session, stream, b""),
        streams.log.open(session, stream),
        streams.log.finish(session, stream, b""),
        streams.log.read(session, stream, 1, 0),
        streams.log.head(session, stream),
        streams.log.drop(session, stream),
        streams.log.keep(session, stream),
    ):
        with pytest.raises(BadName):
            await attempt


async def test_append_rejects_final_event(streams: Streams) -> None:
    with pytest.raises(ValueError, match="finish"):
        await streams.log.append("s", "a", b"", kind="final")


async def test_open_sets_fields_of_existing_session_only(streams: Streams) -> None:
    await streams.sessions.create("s", {"principal": "user:1"}, 60)
    await streams.log.open("s", "a", session_fields={"calls": "1"})
    assert await streams.sessions.load("s") == {"principal": "user:1", "calls": "1"}
    await streams.log.open("unknown", "a", session_fields={"calls": "1"})
    assert await streams.sessions.load("unknown") is None
    with pytest.raises(ValueError, match="ended"):
        await streams.log.open("s", "b", session_fields={"ended": "1"})
