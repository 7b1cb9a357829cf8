"""The contract of every account of stored streams."""

from __future__ import annotations

import asyncio

import pytest

from mcp_app.streams import Streams
from mcp_app.streams.base import ANSWER, MESSAGE, QuotaExceeded
from tests.streams_contract.waiting import Connect, limits, until

LARGE = b"x" * 100_000
OWNER, OTHER = "user:1", "user:2"


async def session_of(streams: Streams, name: str, owner: str) -> None:
    await streams.sessions.create(name, {"principal": owner}, 60)


async def test_session_streams_count_against_principal(streams: Streams) -> None:
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OTHER)
    await streams.log.open("one", "a")
    for _ in range(3):
        await streams.log.append("one", "a", LARGE)
    await streams.log.finish("one", "b", LARGE)
    await streams.log.append("two", "a", b"small")
    assert 4 * len(LARGE) < await streams.quota.held(OWNER) < 5 * len(LARGE)
    assert 0 < await streams.quota.held(OTHER) < 10_000
    assert await streams.quota.held("user:3") == 0


async def test_stream_without_session_counts_against_named_owner(streams: Streams) -> None:
    await streams.log.open("x-1", "a", owner=OWNER)
    await streams.log.append("x-1", "a", LARGE)
    await streams.log.append("x-2", "a", LARGE, owner=OWNER)
    await streams.log.finish("x-3", "a", LARGE, owner=OWNER)
    await streams.log.finish("x-4", "a", LARGE)
    assert 3 * len(LARGE) < await streams.quota.held(OWNER) < 4 * len(LARGE)


async def test_late_note_does_not_overwrite_newer_size(connect: Connect) -> None:
    web, worker = await connect(limits()), await connect(limits())
    await session_of(web, "one", OWNER)
    await web.log.open("one", "call")
    await worker.log.finish("one", "call", LARGE)
    assert await worker.quota.held(OWNER) > len(LARGE)
    # The first process forgets its size of the stream with this query, unless it was forgotten before.
    assert await web.quota.held(OWNER) > len(LARGE)
    await web.log.keep("one", "call")
    assert await web.quota.held(OWNER) > len(LARGE)


async def test_trimmed_events_do_not_count(connect: Connect) -> None:
    streams = await connect(limits(event_bytes=2 * len(LARGE)))
    await session_of(streams, "one", OWNER)
    for _ in range(10):
        await streams.log.append("one", "a", LARGE)
    assert await streams.quota.held(OWNER) < 3 * len(LARGE)


async def test_credentials_of_one_user_share_an_account(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=250_000))
    for name, principal in (("one", "user:1/key:1"), ("two", "user:1/key:2"), ("three", "user:2/bench/by:1")):
        await session_of(streams, name, principal)
        await streams.quota.admit(principal)
        await streams.log.finish(name, "a", LARGE)
    for principal in ("user:1/key:1", "user:1/key:3", "user:1", "user:2/bench/by:1"):
        with pytest.raises(QuotaExceeded):
            await streams.quota.admit(principal)
        assert streams.quota.refused(principal)
    await streams.quota.admit("user:2/key:4")
    assert not streams.quota.refused("user:2/key:4")
    await streams.sessions.end("two", 60)
    await streams.quota.admit("user:1/key:1")


async def test_ended_sessions_count_until_tombstone_expires(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=10_000))
    for number in range(50):
        await streams.quota.admit(OWNER)
        await session_of(streams, f"s{number}", f"{OWNER}/key:{number % 3}")
        for _ in range(2):  # Ending it again adds nothing.
            await streams.sessions.end(f"s{number}", 5)
    with pytest.raises(QuotaExceeded):
        await streams.quota.admit(OWNER)
    await streams.quota.admit(OTHER)

    async def forgotten() -> bool:
        return await streams.quota.held(OWNER) == 0

    await until(forgotten, 20)
    await streams.quota.admit(OWNER)


async def test_admission_is_cached_and_refused_once_quota_is_used(
    connect: Connect,
) -> None:
    streams = await connect(limits(kept_bytes=20_000))
    await session_of(streams, "one", OWNER)
    for _ in range(5):
        await streams.quota.admit(OWNER)
    await streams.log.append("one", "a", LARGE)
    with pytest.raises(QuotaExceeded):
        await streams.quota.admit(OWNER)


async def test_ended_session_does_not_shorten_other_entries(connect: Connect) -> None:
    streams = await connect(limits())
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OWNER)
    await streams.log.finish("one", "a", LARGE)
    await streams.sessions.end("two", 1)
    assert len(LARGE) < await streams.quota.held(OWNER) < 2 * len(LARGE)


@pytest.mark.parametrize("how", ["session end", "drop"])
async def test_dropped_stream_or_ended_session_does_not_count(streams: Streams, how: str) -> None:
    await session_of(streams, "one", OWNER)
    for name in ("a", "b"):
        await streams.log.finish("one", name, LARGE)
    if how == "session end":
        await streams.sessions.end("one", 60)
    else:
        for name in ("a", "b"):
            await streams.log.drop("one", name)
    assert await streams.quota.held(OWNER) < 1_000  # The end of a session is remembered for a while.


async def test_expired_stream_does_not_count(connect: Connect) -> None:
    streams = await connect(limits(ttl=1))
    await session_of(streams, "one", OWNER)
    await streams.log.finish("one", "a", LARGE)
    assert await streams.quota.held(OWNER) > len(LARGE)

    async def forgotten() -> bool:
        return await streams.quota.held(OWNER) == 0

    await until(forgotten, 20)


async def test_refreshed_stream_stays_on_account(connect: Connect) -> None:
    streams = await connect(limits(ttl=2))
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OTHER)
    await streams.log.append("one", "a", LARGE)
    await streams.log.append("two", "a", LARGE)

    async def forgotten() -> bool:
        await streams.log.keep("one", "a")
        return await streams.quota.held(OTHER) == 0

    await until(forgotten, 20)
    assert await streams.quota.held(OWNER) > len(LARGE)


async def test_principal_above_quota_is_refused_and_others_admitted(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=250_000))
    await session_of(streams, "one", OWNER)
    for name in ("a", "b"):
        await streams.quota.admit(OWNER)
        await streams.log.finish("one", name, LARGE)
    await streams.quota.admit(OWNER)
    await streams.log.finish("one", "c", LARGE)
    with pytest.raises(QuotaExceeded, match="and 250000 may be"):
        await streams.quota.admit(OWNER)
    await streams.quota.admit(OTHER)
    await streams.log.drop("one", "b")
    await streams.quota.admit(OWNER)


async def test_disabled_limits_admit_everyone(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=0, kept_percent=0, full_percent=0))
    await session_of(streams, "one", OWNER)
    await streams.log.finish("one", "a", LARGE)
    await streams.quota.admit(OWNER)
    assert not streams.quota.refused(OWNER)
    assert await streams.quota.held(OWNER) > len(LARGE)


@pytest.mark.requirement("T-RES-08")
async def test_answer_is_never_trimmed(connect: Connect) -> None:
    streams = await connect(limits(events=3, event_bytes=2 * len(LARGE)))
    epoch = (await streams.log.append("s", "a", b"first", kind=ANSWER)).epoch
    for number in range(4):
        await streams.log.append("s", "a", b"%d" % number)
        await streams.log.append("s", "a", LARGE, kind=ANSWER)
    await streams.log.append("s", "a", LARGE)
    await streams.log.append("s", "a", LARGE)
    await streams.log.append("s", "a", LARGE)
    await streams.log.finish("s", "a", LARGE)
    page = await streams.log.read("s", "a", epoch, 0, 100)
    answers = [event.offset for event in page.events if event.offset in (1, 3, 5, 7, 9, 13)]
    assert answers == [1, 3, 5, 7, 9, 13]
    assert [event.offset for event in page.events] == [1, 3, 5, 7, 9, 11, 12, 13]
    assert {event.kind for event in page.events} == {"message", "final"}
    assert (page.finished, page.gap) == (True, True)
    assert not (await streams.log.read("s", "a", epoch, 10, 100)).gap


@pytest.mark.parametrize("kind", ["answers", "final answers", "messages"])
async def test_large_events_of_accepted_work_stop_at_twice_the_quota(connect: Connect, kind: str) -> None:
    streams = await connect(limits(kept_bytes=3 * len(LARGE)))
    await session_of(streams, "one", OWNER)

    async def write(number: int, data: bytes, owner: str = OWNER) -> bool:
        try:
            if kind == "final answers":
                await streams.log.finish("one", f"f-{number}", data, owner=owner)
            else:
                written = ANSWER if kind == "answers" else MESSAGE
                await streams.log.append("one", f"a-{number}", data, kind=written, owner=owner)
        except QuotaExceeded:
            return False
        return True

    written = await asyncio.gather(*(write(number, LARGE) for number in range(20)))
    assert sum(written) == 5
    assert await streams.quota.held(OWNER) < 6 * len(LARGE)
    # Small events are still accepted, and so are all events of other principals.
    assert await write(20, b"x" * 1_000)
    assert await write(21, LARGE, OTHER)
