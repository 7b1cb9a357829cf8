"""The reply to one POST: a JSON body or a stream, for any order of answers, messages, grace and faults."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import replace

import orjson
import pytest

from mcp_app.execution.calls import reply as module
from mcp_app.execution.calls.reply import Reply
from mcp_app.protocol.errors import TooManyRequests, Unavailable
from mcp_app.protocol.messages.jsonrpc import encode_notification
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.streams.base import StreamsError, StreamsFull, StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.execution.store import events_of, moody, told

SESSION = "a-session-of-these-tests"
NEVER = 3600.0
AT_ONCE = 0.0


def session() -> LiveSession:
    client = {"name": "tests", "version": "1"}
    fields = stored_fields(
        version="2025-11-25", principal_key="ada", client_info=client, capabilities={}, announced=0
    )
    return LiveSession(SESSION, fields)


class Clocked:
    """A running call that records when its deadline starts."""

    def __init__(self) -> None:
        self.watched = 0

    def watch(self) -> None:
        self.watched += 1


def reply_for(streams: Streams, expected: int = 1) -> Reply:
    return Reply(streams, session(), expected)


async def told_by(reply: Reply, streams: Streams) -> list[tuple[str, bytes]]:
    return told(await events_of(streams, reply.session_id, reply.stream, reply.epoch))


async def test_immediate_answers_become_one_body_without_stream(streams: Streams) -> None:
    log = moody(streams)
    reply = reply_for(streams, 2)
    reply.answer(b"1")
    reply.answer(b"2")
    assert await reply.settled(NEVER)
    assert (reply.answers, reply.stream, log.streams) == ([b"1", b"2"], "", [])
    assert reply.finished


async def test_answer_within_grace_period_becomes_body(streams: Streams) -> None:
    reply = reply_for(streams)
    waiting = asyncio.create_task(reply.settled(NEVER))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    reply.answer(b"1")
    assert await waiting
    assert reply.answers == [b"1"]


async def test_end_of_grace_period_opens_stream_and_starts_deadlines(streams: Streams) -> None:
    reply = reply_for(streams)
    call = Clocked()
    reply.calls.append(call)
    assert not await reply.settled(AT_ONCE)
    assert call.watched
    reply.answer(b"1")
    assert await told_by(reply, streams) == [("final", b"1")]


async def test_message_opens_stream_and_precedes_answer(streams: Streams) -> None:
    reply = reply_for(streams)
    reply.send(b"m")
    reply.answer(b"1")
    assert not await reply.settled(NEVER)
    assert reply.answers == []
    assert await told_by(reply, streams) == [("message", b"m"), ("final", b"1")]


async def test_early_streaming_call_gets_its_deadline(streams: Streams) -> None:
    reply = reply_for(streams)
    call = Clocked()
    reply.calls.append(call)
    reply.send(b"m")
    assert not await reply.settled(NEVER)
    assert call.watched


async def test_stream_opened_before_settle_settles_reply(streams: Streams) -> None:
    reply = reply_for(streams, 2)
    reply.send(b"m")
    while not reply.epoch:
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert not await reply.settled(NEVER)


@pytest.mark.parametrize("expected", [1, 2])
async def test_nothing_is_sent_after_last_answer(streams: Streams, expected: int) -> None:
    reply = reply_for(streams, expected)
    reply.send(b"m")
    for number in range(expected):
        reply.answer(b"%d" % number)
    reply.send(b"late")
    reply.send(b"1000", "close")
    assert (await told_by_open(reply, streams))[-1] == ("final", b"%d" % (expected - 1))


async def told_by_open(reply: Reply, streams: Streams) -> list[tuple[str, bytes]]:
    assert not await reply.settled(NEVER)
    return await told_by(reply, streams)


async def test_message_after_buffered_answer_is_dropped_without_stream(streams: Streams) -> None:
    log = moody(streams)
    reply = reply_for(streams)
    reply.answer(b"1")
    reply.send(b"late")
    assert await reply.settled(NEVER)
    assert log.streams == []


@pytest.mark.requirement("BATCH-04")
@pytest.mark.parametrize("order", sorted(set(itertools.permutations("mmaa"))))
async def test_batch_streams_in_order_of_events(streams: Streams, order: tuple[str, ...]) -> None:
    reply = reply_for(streams, 3)
    for number, what in enumerate(order):
        (reply.answer if what == "a" else reply.send)(b"%s%d" % (what.encode(), number))
    reply.answer(b"last")
    told = await told_by_open(reply, streams)
    assert told[-1] == ("final", b"last")
    assert sorted(data for _, data in told[:-1]) == sorted(
        b"%s%d" % (what.encode(), number) for number, what in enumerate(order)
    )
    messages = [data for _, data in told if data[:1] == b"m"]
    answers = [data for _, data in told if data[:1] == b"a"]
    assert (messages, answers) == (sorted(messages), sorted(answers))
    first_message = order.index("m")
    assert [data for _, data in told[: first_message + 1]] == [
        b"%s%d" % (what.encode(), number) for number, what in enumerate(order[: first_message + 1])
    ]


async def test_each_batch_answer_is_streamed_when_available(streams: Streams) -> None:
    reply = reply_for(streams, 2)
    assert not await reply.settled(AT_ONCE)
    reader = streams.reader(SESSION, reply.stream, reply.epoch, 0)
    reply.answer(b"1")
    assert told(await reader.next(5)) == [("message", b"1")]
    reply.answer(b"2")
    assert told(await reader.next(5)) == [("final", b"2")]
    reader.close()


async def test_events_during_stream_opening_keep_order(streams: Streams) -> None:
    log = moody(streams)
    log.gate = asyncio.Event()
    reply = reply_for(streams)
    reply.send(b"m1")
    waiting = asyncio.create_task(reply.settled(AT_ONCE))
    while not log.streams:
        await asyncio.sleep(0)
    reply.send(b"m2")
    reply.answer(b"1")
    assert not waiting.done()
    log.gate.set()
    assert not await waiting
    assert await told_by(reply, streams) == [("message", b"m1"), ("message", b"m2"), ("final", b"1")]


@pytest.mark.parametrize("fault", [StreamsUnavailable, StreamsFull, StreamsError])
@pytest.mark.parametrize("answered", ["before the fault", "after the fault"])
async def test_answer_becomes_body_if_stream_cannot_open(
    streams: Streams, fault: type[StreamsError], answered: str
) -> None:
    log = moody(streams)
    log.faults = [fault("away")]
    log.gate = asyncio.Event()
    reply = reply_for(streams)
    reply.send(b"m")
    waiting = asyncio.create_task(reply.settled(NEVER))
    while not log.streams:
        await asyncio.sleep(0)
    if answered == "before the fault":
        reply.answer(b"1")
    log.gate.set()
    while not reply.broken:
        await asyncio.sleep(0)
    if answered == "after the fault":
        assert not waiting.done()
        reply.send(b"nowhere to go")
        reply.answer(b"1")
    assert await waiting
    assert reply.answers == [b"1"]


async def test_fault_before_settle_settles_reply(streams: Streams) -> None:
    moody(streams).faults = [StreamsUnavailable("away")]
    reply = reply_for(streams)
    reply.send(b"m")
    reply.answer(b"1")
    while not reply.broken:
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert await reply.settled(NEVER)
    assert reply.answers == [b"1"]


async def test_session_end_leaves_answer_as_body(streams: Streams) -> None:
    await streams.sessions.end(SESSION, 60)
    reply = reply_for(streams)
    reply.send(b"m")
    waiting = asyncio.create_task(reply.settled(NEVER))
    while not reply.broken:
        await asyncio.sleep(0)
    reply.answer(b"cancelled")
    assert await waiting
    assert reply.answers == [b"cancelled"]


async def test_dropped_messages_are_reported_to_client(
    streams: Streams, caplog: pytest.LogCaptureFixture
) -> None:
    moody(streams).faults = [None, StreamsFull("full"), StreamsUnavailable("away")]
    reply = reply_for(streams)
    for message in (b"shed", b"shed too", b"kept", b"kept too"):
        reply.send(message)
    reply.answer(b"1")
    (_, notice), *rest = await told_by_open(reply, streams)
    assert orjson.loads(notice)["params"] == {
        "level": "warning",
        "logger": "mcp.stream",
        "data": "The server could not store messages of this call for a while. Left out here: 2.",
    }
    assert rest == [("message", b"kept"), ("message", b"kept too"), ("final", b"1")]
    assert "dropped" in caplog.text


async def test_dropped_messages_at_end_are_reported_before_answer(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FINISH_RETRY_SECONDS", (0.0,))
    moody(streams).faults = [None, StreamsUnavailable("away"), StreamsUnavailable("away")]
    reply = reply_for(streams)
    reply.send(b"shed")
    reply.answer(b"1")
    (_, notice), final = await told_by_open(reply, streams)
    assert orjson.loads(notice)["params"]["data"].endswith("Left out here: 1.")
    assert final == ("final", b"1")


async def test_answer_is_stored_soon_after_long_outage(
    streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R14: the client waits on the stream forever if the answer is abandoned while a disk is full."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(module.asyncio, "sleep", pause)
    moody(streams).faults = [None, *[StreamsUnavailable("away") for _ in range(200)]]
    reply = reply_for(streams)
    reply.send(b"begun")
    reply.answer(b"1")
    assert (await told_by_open(reply, streams))[-1] == ("final", b"1")
    assert max(pauses) <= 2


@pytest.mark.parametrize("why", ["only progress dropped", "log level above warning"])
async def test_dropped_messages_are_not_reported_if_unwanted(streams: Streams, why: str) -> None:
    moody(streams).faults = [None, StreamsUnavailable("away")]
    asking = session()
    if why == "log level above warning":
        asking.log_level = "error"
    reply = Reply(streams, asking, 1)
    reply.send(encode_notification("notifications/progress" if "progress" in why else "x/y", {}))
    reply.answer(b"1")
    assert await told_by_open(reply, streams) == [("final", b"1")]


@pytest.mark.parametrize("when", ["stream opening fails", "stream opening failed before", "write fails"])
async def test_unsendable_question_notifies_asker(streams: Streams, when: str) -> None:
    moody(streams).faults = [*[None][: when == "write fails"], StreamsUnavailable("away")]
    reply = reply_for(streams)
    told_lost: list[str] = []
    if when == "stream opening failed before":
        reply.send(b"m")
        while not reply.broken:
            await asyncio.sleep(0)
    reply.send(b"q", lost=told_lost.append)
    while not told_lost:
        await asyncio.sleep(0)
    assert told_lost == [
        "The client cannot be asked now: the server's Redis takes nothing. Try again in a moment."
    ]
    reply.answer(b"1", "tool_error")
    await reply.settled(NEVER)
    assert isinstance(reply.error, Unavailable)


async def test_exhausted_quota_returns_answers_as_bodies_and_refuses_questions(streams: Streams) -> None:
    streams.log.limits = replace(streams.log.limits, kept_bytes=1)
    await streams.log.append("another", "stream", b"x", owner=session().principal_key)
    for outcome, refused in (("ok", False), ("tool_error", True)):
        reply = reply_for(streams)
        told_lost: list[str] = []
        reply.send(b"q", lost=told_lost.append)
        while not told_lost:
            await asyncio.sleep(0)
        assert "Too much is kept for you" in told_lost[0]
        reply.answer(b"1", outcome)
        assert await reply.settled(NEVER)
        assert reply.answers == [b"1"]
        assert isinstance(reply.error, TooManyRequests) is refused


@pytest.mark.parametrize("fault", [StreamsUnavailable, StreamsFull, StreamsError])
async def test_answer_is_retried_until_log_recovers(
    streams: Streams, fault: type[StreamsError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FINISH_RETRY_SECONDS", (0.0, 0.0))
    reply = reply_for(streams, 2)
    log = moody(streams)
    log.faults = [None, fault("away"), fault("away"), None, fault("away")]
    assert not await reply.settled(AT_ONCE)
    reply.answer(b"1")
    reply.answer(b"2")
    assert await told_by(reply, streams) == [("message", b"1"), ("final", b"2")]


async def test_abandoned_answer_is_logged_as_error(
    streams: Streams, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FINISH_RETRY_SECONDS", (0.0,))
    reply = reply_for(streams)
    log = moody(streams)
    log.faults = [None, StreamsUnavailable("away"), StreamsUnavailable("away")]
    assert not await reply.settled(AT_ONCE)
    reply.answer(b"1")
    while log.faults:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_stream_of_ended_session_receives_nothing(streams: Streams) -> None:
    reply = reply_for(streams)
    log = moody(streams)
    assert not await reply.settled(AT_ONCE)
    await streams.sessions.end(SESSION, 60)
    reply.send(b"m")
    reply.answer(b"1")
    while len(log.streams) < 3:
        await asyncio.sleep(0)
    assert await streams.log.head(SESSION, reply.stream) is None


async def test_each_reply_has_its_own_stream_name(streams: Streams) -> None:
    replies = [reply_for(streams) for _ in range(2)]
    for reply in replies:
        assert not await reply.settled(AT_ONCE)
    assert replies[0].stream != replies[1].stream
