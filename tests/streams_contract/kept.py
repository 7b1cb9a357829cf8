"""What every account of kept streams must do."""

from __future__ import annotations

import asyncio

import pytest

from mcp_app.streams import Streams
from mcp_app.streams.base import ANSWER, MESSAGE, KeptFull
from tests.streams_contract.waiting import Connect, limits, until

LARGE = b"x" * 100_000
OWNER, OTHER = "user:1", "user:2"


async def session_of(streams: Streams, name: str, owner: str) -> None:
    await streams.sessions.create(name, {"principal": owner}, 60)


async def test_what_a_session_holds_is_on_its_principals_account(streams: Streams) -> None:
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OTHER)
    await streams.log.open("one", "a")
    for _ in range(3):
        await streams.log.append("one", "a", LARGE)
    await streams.log.finish("one", "b", LARGE)
    await streams.log.append("two", "a", b"small")
    assert 4 * len(LARGE) < await streams.kept.held(OWNER) < 5 * len(LARGE)
    assert 0 < await streams.kept.held(OTHER) < 10_000
    assert await streams.kept.held("user:3") == 0


async def test_a_stream_without_a_session_is_on_the_account_that_was_named(streams: Streams) -> None:
    await streams.log.open("x-1", "a", owner=OWNER)
    await streams.log.append("x-1", "a", LARGE)
    await streams.log.append("x-2", "a", LARGE, owner=OWNER)
    await streams.log.finish("x-3", "a", LARGE, owner=OWNER)
    await streams.log.finish("x-4", "a", LARGE)
    assert 3 * len(LARGE) < await streams.kept.held(OWNER) < 4 * len(LARGE)


async def test_what_is_noted_late_does_not_replace_what_another_process_wrote_since(connect: Connect) -> None:
    web, worker = await connect(limits()), await connect(limits())
    await session_of(web, "one", OWNER)
    await web.log.open("one", "call")
    await worker.log.finish("one", "call", LARGE)
    assert await worker.kept.held(OWNER) > len(LARGE)
    # What the first knows of the stream leaves with its question, if it has not left by itself.
    assert await web.kept.held(OWNER) > len(LARGE)
    await web.log.keep("one", "call")
    assert await web.kept.held(OWNER) > len(LARGE)


async def test_what_is_trimmed_is_on_no_account(connect: Connect) -> None:
    streams = await connect(limits(event_bytes=2 * len(LARGE)))
    await session_of(streams, "one", OWNER)
    for _ in range(10):
        await streams.log.append("one", "a", LARGE)
    assert await streams.kept.held(OWNER) < 3 * len(LARGE)


async def test_all_credentials_of_a_person_are_on_one_account(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=250_000))
    for name, principal in (("one", "user:1/key:1"), ("two", "user:1/key:2"), ("three", "user:2/bench/by:1")):
        await session_of(streams, name, principal)
        await streams.kept.admit(principal)
        await streams.log.finish(name, "a", LARGE)
    for principal in ("user:1/key:1", "user:1/key:3", "user:1", "user:2/bench/by:1"):
        with pytest.raises(KeptFull):
            await streams.kept.admit(principal)
        assert streams.kept.refused(principal)
    await streams.kept.admit("user:2/key:4")
    assert not streams.kept.refused("user:2/key:4")
    await streams.sessions.end("two", 60)
    await streams.kept.admit("user:1/key:1")


async def test_ended_sessions_are_on_the_account_while_they_are_remembered(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=10_000))
    for number in range(50):
        await streams.kept.admit(OWNER)
        await session_of(streams, f"s{number}", f"{OWNER}/key:{number % 3}")
        for _ in range(2):  # Who ends it again adds nothing.
            await streams.sessions.end(f"s{number}", 5)
    with pytest.raises(KeptFull):
        await streams.kept.admit(OWNER)
    await streams.kept.admit(OTHER)

    async def forgotten() -> bool:
        return await streams.kept.held(OWNER) == 0

    await until(forgotten, 20)
    await streams.kept.admit(OWNER)


async def test_who_has_room_is_admitted_without_asking_again_and_refused_once_it_is_used(
    connect: Connect,
) -> None:
    streams = await connect(limits(kept_bytes=20_000))
    await session_of(streams, "one", OWNER)
    for _ in range(5):
        await streams.kept.admit(OWNER)
    await streams.log.append("one", "a", LARGE)
    with pytest.raises(KeptFull):
        await streams.kept.admit(OWNER)


async def test_an_ended_session_does_not_shorten_what_else_is_kept_on_the_account(connect: Connect) -> None:
    streams = await connect(limits())
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OWNER)
    await streams.log.finish("one", "a", LARGE)
    await streams.sessions.end("two", 1)
    assert len(LARGE) < await streams.kept.held(OWNER) < 2 * len(LARGE)


@pytest.mark.parametrize("how", ["its session ends", "it is dropped"])
async def test_what_is_gone_is_on_no_account(streams: Streams, how: str) -> None:
    await session_of(streams, "one", OWNER)
    for name in ("a", "b"):
        await streams.log.finish("one", name, LARGE)
    if how == "its session ends":
        await streams.sessions.end("one", 60)
    else:
        for name in ("a", "b"):
            await streams.log.drop("one", name)
    assert await streams.kept.held(OWNER) < 1_000  # That a session ended is remembered for a while.


async def test_what_has_expired_is_on_no_account(connect: Connect) -> None:
    streams = await connect(limits(ttl=1))
    await session_of(streams, "one", OWNER)
    await streams.log.finish("one", "a", LARGE)
    assert await streams.kept.held(OWNER) > len(LARGE)

    async def forgotten() -> bool:
        return await streams.kept.held(OWNER) == 0

    await until(forgotten, 20)


async def test_a_stream_that_is_kept_on_stays_on_its_account(connect: Connect) -> None:
    streams = await connect(limits(ttl=2))
    await session_of(streams, "one", OWNER)
    await session_of(streams, "two", OTHER)
    await streams.log.append("one", "a", LARGE)
    await streams.log.append("two", "a", LARGE)

    async def forgotten() -> bool:
        await streams.log.keep("one", "a")
        return await streams.kept.held(OTHER) == 0

    await until(forgotten, 20)
    assert await streams.kept.held(OWNER) > len(LARGE)


async def test_who_has_his_share_is_not_admitted_and_others_are(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=250_000))
    await session_of(streams, "one", OWNER)
    for name in ("a", "b"):
        await streams.kept.admit(OWNER)
        await streams.log.finish("one", name, LARGE)
    await streams.kept.admit(OWNER)
    await streams.log.finish("one", "c", LARGE)
    with pytest.raises(KeptFull, match="and 250000 may be"):
        await streams.kept.admit(OWNER)
    await streams.kept.admit(OTHER)
    await streams.log.drop("one", "b")
    await streams.kept.admit(OWNER)


async def test_no_bound_admits_everybody(connect: Connect) -> None:
    streams = await connect(limits(kept_bytes=0, kept_percent=0, full_percent=0))
    await session_of(streams, "one", OWNER)
    await streams.log.finish("one", "a", LARGE)
    await streams.kept.admit(OWNER)
    assert not streams.kept.refused(OWNER)
    assert await streams.kept.held(OWNER) > len(LARGE)


@pytest.mark.requirement("T-RES-08")
async def test_an_answer_is_never_trimmed_whatever_follows_it(connect: Connect) -> None:
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
async def test_large_events_of_accepted_work_stop_at_twice_the_share(connect: Connect, kind: str) -> None:
    streams = await connect(limits(kept_bytes=3 * len(LARGE)))
    await session_of(streams, "one", OWNER)

    async def write(number: int, data: bytes, owner: str = OWNER) -> bool:
        try:
            if kind == "final answers":
                await streams.log.finish("one", f"f-{number}", data, owner=owner)
            else:
                written = ANSWER if kind == "answers" else MESSAGE
                await streams.log.append("one", f"a-{number}", data, kind=written, owner=owner)
        except KeptFull:
            return False
        return True

    written = await asyncio.gather(*(write(number, LARGE) for number in range(20)))
    assert sum(written) == 5
    assert await streams.kept.held(OWNER) < 6 * len(LARGE)
    # What is small goes on, and so does everything of others.
    assert await write(20, b"x" * 1_000)
    assert await write(21, LARGE, OTHER)
