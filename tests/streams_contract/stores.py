"""The contract of every session, request, window and message log store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_app.streams import SessionEnded, Streams
from mcp_app.streams.base import BadName, StreamsFull
from tests.streams_contract.waiting import Connect, limits, until

NEWS = ("session", {"what": "ended"})


@pytest.mark.requirement("SES-11")
async def test_session_of_one_process_is_read_and_changed_by_another(connect: Connect) -> None:
    here, there = await connect(), await connect()
    await here.sessions.create("s", {"principal": "user:1", "version": "2025-11-25"}, 60)
    assert await there.sessions.load("s") == {"principal": "user:1", "version": "2025-11-25"}
    assert await there.sessions.update("s", {"log_level": "info"})
    assert (await here.sessions.load("s") or {})["log_level"] == "info"


@pytest.mark.parametrize("session", ["unknown", "", "a b", "}{", "s:session", "x" * 500, "ä\x00"])
async def test_unknown_session_is_none(streams: Streams, session: str) -> None:
    assert await streams.sessions.load(session) is None


async def test_unknown_session_is_not_created_by_update_or_touch(streams: Streams) -> None:
    assert not await streams.sessions.update("s", {"a": "b"})
    assert not await streams.sessions.touch("s", 60)
    assert await streams.sessions.load("s") is None


@pytest.mark.requirement("SES-10")
async def test_session_expires_unless_touched(streams: Streams) -> None:
    await streams.sessions.create("left", {"a": "b"}, 1)
    await streams.sessions.create("used", {"a": "b"}, 1)
    assert await streams.sessions.touch("used", 60)

    async def expired() -> bool:
        return await streams.sessions.load("left") is None

    await until(expired)
    assert await streams.sessions.load("used") == {"a": "b"}


@pytest.mark.requirement("SES-05", "SES-07")
async def test_ended_session_cannot_be_recreated(connect: Connect) -> None:
    here, there = await connect(), await connect()
    await here.sessions.create("s", {"a": "b"}, 60)
    await there.sessions.end("s", 60)
    for attempt in (
        here.sessions.load("s"),
        here.sessions.create("s", {"a": "b"}, 60),
        here.sessions.update("s", {"a": "b"}),
        here.requests.open("s", "r", 60),
    ):
        with pytest.raises(SessionEnded):
            await attempt
    assert not await here.sessions.touch("s", 60)
    assert not await here.sessions.add_subscription("s", "a://b", 5)


async def test_session_tombstone_expires(streams: Streams) -> None:
    await streams.sessions.create("s", {"a": "b"}, 60)
    await streams.sessions.end("s", 2)
    with pytest.raises(SessionEnded):
        await streams.sessions.load("s")

    async def forgotten() -> bool:
        try:
            return await streams.sessions.load("s") is None
        except SessionEnded:
            return False

    await until(forgotten)


@pytest.mark.parametrize("fields", [{}, {"ended": "1"}])
async def test_fields_faking_an_end_are_rejected(streams: Streams, fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="field"):
        await streams.sessions.create("s", fields, 60)
    with pytest.raises(ValueError, match="field"):
        await streams.sessions.update("s", fields)


async def test_end_returns_principal_of_session_once(streams: Streams) -> None:
    await streams.sessions.create("s", {"principal": "user:1"}, 60)
    assert await streams.sessions.end("s", 60) == "user:1"
    assert await streams.sessions.end("s", 60) == ""
    assert await streams.sessions.end("unknown", 60) == ""


async def test_session_opens_in_a_free_slot_or_not_at_all(connect: Connect) -> None:
    here, there = await connect(), await connect()
    assert await here.sessions.open("a", {"principal": "user:1"}, 60, "sessions/user:1", 2)
    assert await there.sessions.open("b", {"principal": "user:1"}, 60, "sessions/user:1", 2)
    assert not await here.sessions.open("c", {"principal": "user:1"}, 60, "sessions/user:1", 2)
    assert await here.sessions.load("c") is None
    assert await here.windows.held("sessions/user:1") == 2
    assert await there.sessions.load("a") == {"principal": "user:1"}
    assert await there.sessions.end_unless("a", "calls", 60, "sessions/user:1", NEWS)
    assert await here.sessions.open("d", {"principal": "user:1"}, 60, "sessions/user:1", 2)


async def test_ended_session_is_not_reopened_and_takes_no_slot(streams: Streams) -> None:
    await streams.sessions.end("s", 60)
    with pytest.raises(SessionEnded):
        await streams.sessions.open("s", {"principal": "user:1"}, 60, "sessions/user:1", 2)
    assert await streams.windows.held("sessions/user:1") == 0


async def test_session_news_are_broadcast_only_if_another_process_loaded_session(
    connect: Connect,
) -> None:
    here, there = await connect(), await connect()
    heard: list[dict[str, Any]] = []
    there.hub.subscribe("session", heard.append)
    for session in ("own", "shared"):
        await here.sessions.create(session, {"principal": "user:1"}, 60)
    assert await there.sessions.load("shared") == {"principal": "user:1"}
    assert await there.sessions.touch("shared", 60)
    assert await there.sessions.load("shared") == {"principal": "user:1"}  # cached state is not a field

    async def subscribed() -> bool:
        await here.hub.publish("session", {"what": "nothing"})
        return bool(heard)

    await until(subscribed)
    for session in ("own", "shared"):
        changed = ("session", {"session": session, "what": "changed"})
        assert await here.sessions.update(session, {"log_level": "info"}, changed)
        ended = ("session", {"session": session, "what": "ended"})
        assert await here.sessions.end_unless(session, "calls", 60, "sessions/user:1", ended)

    async def told() -> bool:
        await here.hub.publish("session", {"what": "all of it"})
        return {"what": "all of it"} in heard

    await until(told)
    known = [(each["session"], each["what"]) for each in heard if "session" in each]
    assert known == [("shared", "changed"), ("shared", "ended")]


async def test_session_with_forbidding_field_is_not_ended(streams: Streams) -> None:
    await streams.sessions.create("s", {"principal": "user:1", "calls": "1"}, 60)
    for session in ("s", "unknown"):
        assert not await streams.sessions.end_unless(session, "calls", 60, "sessions/user:1", NEWS)
    assert await streams.sessions.load("s") == {"principal": "user:1", "calls": "1"}
    assert await streams.sessions.end_unless("s", "other", 60, "sessions/user:1", NEWS)
    with pytest.raises(SessionEnded):
        await streams.sessions.end_unless("s", "other", 60, "sessions/user:1", NEWS)


async def test_unconditional_end_is_always_broadcast(
    streams: Streams,
) -> None:
    heard: list[dict[str, Any]] = []
    streams.hub.subscribe("session", heard.append)

    async def told() -> bool:
        await streams.sessions.end("unknown", 60, NEWS)
        return NEWS[1] in heard

    await until(told)


async def test_subscribers_are_live_sessions_with_subscription(streams: Streams) -> None:
    for session in ("kept", "left", "ended"):
        await streams.sessions.create(session, {"a": "b"}, 60)
        assert await streams.sessions.add_subscription(session, "demo://ä/1", 5)
    await streams.sessions.create("other", {"a": "b"}, 60)
    await streams.sessions.add_subscription("other", "demo://2", 5)
    assert not await streams.sessions.add_subscription("unknown", "demo://ä/1", 5)
    await streams.sessions.remove_subscription("left", "demo://ä/1")
    await streams.sessions.remove_subscription("left", "demo://never")
    await streams.sessions.end("ended", 60)
    assert await streams.sessions.subscribers("demo://ä/1") == ["kept"]
    assert await streams.sessions.subscribers("demo://3") == []
    several = [f"demo://{number}" for number in range(600)] + ["demo://ä/1"]
    assert await streams.sessions.subscribed("kept", several) == ["demo://ä/1"]
    assert await streams.sessions.subscribed("other", several) == ["demo://2"]
    for nobody in ("left", "ended", "unknown"):
        assert await streams.sessions.subscribed(nobody, several) == []


async def test_expired_session_is_not_a_subscriber(streams: Streams) -> None:
    await streams.sessions.create("s", {"a": "b"}, 2)
    await streams.sessions.add_subscription("s", "a://b", 5)
    assert await streams.sessions.subscribers("a://b") == ["s"]

    async def gone() -> bool:
        return await streams.sessions.subscribers("a://b") == []

    await until(gone)


async def test_subscriptions_are_limited_but_may_be_repeated(streams: Streams) -> None:
    await streams.sessions.create("s", {"a": "b"}, 60)
    assert await streams.sessions.add_subscription("s", "a://1", 2)
    assert await streams.sessions.add_subscription("s", "a://2", 2)
    assert not await streams.sessions.add_subscription("s", "a://3", 2)
    assert await streams.sessions.add_subscription("s", "a://1", 2)
    assert await streams.sessions.subscribers("a://3") == []


async def test_answer_given_to_another_process_reaches_waiter(connect: Connect) -> None:
    here, there = await connect(), await connect()
    await here.requests.open("s", "ask-1", 60)
    waiting = asyncio.create_task(here.requests.wait("s", "ask-1", 30))
    assert await there.requests.answer("s", "ask-1", b'{"result":{}}')
    async with asyncio.timeout(2):
        assert await waiting == b'{"result":{}}'
    assert await there.requests.wait("s", "ask-1", 30) == b'{"result":{}}'


async def test_exactly_first_of_racing_answers_counts(connect: Connect) -> None:
    here, there = await connect(), await connect()
    await here.requests.open("s", "r", 60)
    taken = await asyncio.gather(
        *((here, there)[number % 2].requests.answer("s", "r", b"%d" % number) for number in range(10))
    )
    assert taken.count(True) == 1
    assert await here.requests.wait("s", "r", 1) == b"%d" % taken.index(True)


@pytest.mark.parametrize("request_id", ["never", "", "a b", "x" * 100, "r\x00", "ä", "}:session"])
async def test_unrequested_answer_is_rejected(streams: Streams, request_id: str) -> None:
    await streams.requests.open("s", "r", 60)
    assert not await streams.requests.answer("s", request_id, b"{}")
    assert not await streams.requests.answer("other", "r", b"{}")


async def test_answer_may_equal_open_request_mark(streams: Streams) -> None:
    await streams.requests.open("s", "r", 60)
    assert await streams.requests.answer("s", "r", b"?")
    assert not await streams.requests.answer("s", "r", b"second")
    assert await streams.requests.wait("s", "r", 1) == b"?"


@pytest.mark.parametrize("how", ["drop", "end", "expire"])
async def test_waiter_is_notified_if_no_answer_can_arrive(connect: Connect, how: str) -> None:
    here, there = await connect(limits(slow_poll=0.2)), await connect()
    await here.sessions.create("s", {"a": "b"}, 60)
    await here.requests.open("s", "r", 1 if how == "expire" else 60)
    waiting = asyncio.create_task(here.requests.wait("s", "r", 30))
    if how == "drop":
        await there.requests.drop("s", "r")
    elif how == "end":
        await there.sessions.end("s", 60)
    async with asyncio.timeout(5):
        assert await waiting is None
    assert not await there.requests.answer("s", "r", b"late")


async def test_wait_for_answer_is_bounded(streams: Streams) -> None:
    await streams.requests.open("s", "r", 60)
    assert await streams.requests.wait("s", "r", 0.05) is None
    assert await streams.requests.wait("s", "never", 60) is None
    with pytest.raises(BadName):
        await streams.requests.open("s", "no spaces", 60)


async def test_window_refuses_hits_above_limit_until_its_end(connect: Connect) -> None:
    here, there = await connect(), await connect()
    hits = [await each.windows.hit("k", 3, 0.5) for each in (here, there, here, there, here)]
    assert hits == [True, True, True, False, False]
    assert await here.windows.hit("another key", 1, 60)

    async def over() -> bool:
        return await here.windows.hit("k", 3, 0.5)

    await until(over)


async def test_slots_are_held_up_to_limit_and_by_renewal(connect: Connect) -> None:
    here, there = await connect(), await connect()
    assert await here.windows.acquire("k", "a", 2, 60)
    assert await there.windows.acquire("k", "b", 2, 60)
    assert not await here.windows.acquire("k", "c", 2, 60)
    assert await here.windows.acquire("k", "a", 2, 60)
    assert await there.windows.held("k") == 2
    await there.windows.release("k", "a")
    await there.windows.release("k", "never held")
    assert await here.windows.acquire("k", "c", 2, 60)
    assert await here.windows.held("another key") == 0


async def test_slot_of_dead_holder_becomes_free(streams: Streams) -> None:
    assert await streams.windows.acquire("k", "dead", 1, 0.1)

    async def free() -> bool:
        return await streams.windows.acquire("k", "next", 1, 60)

    await until(free)
    assert await streams.windows.held("k") == 1


@pytest.mark.parametrize("key", ["", "x" * 500, "a b", "ä", "{x}", "\x00\n"])
async def test_arbitrary_text_is_valid_window_key(streams: Streams, key: str) -> None:
    assert await streams.windows.hit(key, 1, 60)
    assert not await streams.windows.hit(key, 1, 60)
    assert await streams.windows.acquire(key, "a", 1, 60)
    assert not await streams.windows.acquire(key, "b", 1, 60)


async def test_log_batches_are_read_in_order_and_trimmed_by_id(connect: Connect) -> None:
    here, there = await connect(), await connect()
    for number in range(5):
        await (here, there)[number % 2].messages.push(b"%d" % number)
    first = await here.messages.read("0-0", 2)
    assert [batch for _, batch in first] == [b"0", b"1"]
    rest = await here.messages.read(first[-1][0], 10)
    assert [batch for _, batch in rest] == [b"2", b"3", b"4"]
    await there.messages.trim(first[-1][0])
    assert await here.messages.depth() == 3
    assert [batch for _, batch in await here.messages.read("0", 10)] == [b"2", b"3", b"4"]


async def test_full_log_queue_refuses_batches_until_trimmed(connect: Connect) -> None:
    streams = await connect(limits(log_batches=3))
    for number in range(3):
        await streams.messages.push(b"%d" % number)
    with pytest.raises(StreamsFull):
        await streams.messages.push(b"3")
    waiting = await streams.messages.read("", 10)
    assert [batch for _, batch in waiting] == [b"0", b"1", b"2"]
    await streams.messages.trim(waiting[0][0])
    await streams.messages.push(b"4")
    assert await streams.messages.depth() == 3


async def test_oversized_log_batch_is_rejected(connect: Connect) -> None:
    streams = await connect(limits(log_batch_bytes=10))
    await streams.messages.push(b"x" * 10)
    with pytest.raises(ValueError, match="at most 10 bytes"):
        await streams.messages.push(b"x" * 11)


async def test_rate_is_leased_once_over_all_processes(connect: Connect) -> None:
    here, there = await connect(), await connect()
    taken = [await each.rules.lease("r", 60_000_000, 10, 4) for each in (here, there, here, there)]
    assert [each.calls for each in taken] == [4, 4, 2, 0]
    assert 59_000_000 < taken[-1].wait <= 60_000_000
    await here.rules.forget(["r"])
    assert (await there.rules.lease("r", 60_000_000, 10, 1)).calls == 1


async def test_rate_fills_again_by_the_clock(streams: Streams) -> None:
    assert (await streams.rules.lease("r", 50_000, 1, 1)).calls == 1

    async def again() -> bool:
        return (await streams.rules.lease("r", 50_000, 1, 1)).calls == 1

    await until(again)


async def test_budget_is_spent_over_all_processes_and_begins_with_stored_units(connect: Connect) -> None:
    here, there = await connect(), await connect()
    assert (await here.rules.spend("b", 2, 10, 60)).is_unknown
    assert await here.rules.spend("b", 2, 10, 60, 5) == (True, 7, False)
    assert await there.rules.spend("b", 3, 10, 60) == (True, 10, False)
    assert await here.rules.spend("b", 1, 10, 60, 0) == (False, 10, False)
    assert await here.rules.spend("b", 1, None, 60) == (True, 11, False)
    assert await there.rules.spend("b", -4, None, 60) == (True, 7, False)
    assert await there.rules.spend("b", -40, None, 60) == (True, 0, False)


async def test_holders_of_slots_are_listed(connect: Connect) -> None:
    here, there = await connect(), await connect()
    await here.windows.acquire("k", "a", 2, 60)
    await there.windows.acquire("k", "b", 2, 60)
    assert sorted(await here.windows.holders("k")) == ["a", "b"]
    assert await here.windows.holders("another key") == []
