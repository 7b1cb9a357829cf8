"""The answer of a background call on its single request, including after a lost stream."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.execution.background import exchange_reply
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.background.service import Background
from mcp_app.protocol.errors import Unavailable
from mcp_app.streams.base import Position
from mcp_app.streams.gateway import Streams

ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{}}'


class Records:
    """A stub of the stored side of background calls with scripted answers."""

    def __init__(self, *found: Any) -> None:
        self.found = list(found)

    async def lost_stream(self, session: str, stream: str) -> Any:
        outcome = self.found.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return None if outcome is None else (stream, await outcome())


@pytest.fixture
async def streams() -> Streams:
    made = Streams.in_memory()
    await made.start()
    return made


async def reply_to(streams: Streams, *found: Any) -> ExchangeReply:
    """Return a reply that follows a missing stream."""
    reply = ExchangeReply(streams, cast("Background", Records(*found)), Settings(), "x-1", 7)
    lost = await streams.log.open("x-1", "c1")
    await streams.log.drop("x-1", "c1")
    reply.follow("c1", lost.epoch)
    return reply


async def answered(reply: ExchangeReply) -> Any:
    async with asyncio.timeout(5):
        while not reply.answered:
            await reply.changed(1)
    reply.close()
    return orjson.loads(reply.answered)


async def test_lost_stream_is_reopened_with_answer(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_reply, "RETRY_SECONDS", 0.001)

    async def restored() -> Position:
        position = await streams.log.open("x-1", "c1")
        await streams.log.finish("x-1", "c1", ANSWER)
        return Position(position.epoch, 0)

    reply = await reply_to(streams, Unavailable(), Unavailable(), restored)
    assert await answered(reply) == orjson.loads(ANSWER)
    assert not reply.failed


async def test_missing_call_record_returns_internal_error(streams: Streams) -> None:
    reply = await reply_to(streams, None)
    found = await answered(reply)
    assert (found["id"], found["error"]["code"]) == (7, -32603)
    assert reply.failed


async def test_notifications_above_limit_are_dropped_but_answer_is_kept(streams: Streams) -> None:
    settings = Settings(max_stream_events=2)
    reply = ExchangeReply(streams, cast("Background", Records()), settings, "x-1", 7)
    for number in range(5):
        reply.send(b"%d" % number)
    reply.answer(ANSWER, "ok")
    reply.answer(b"another", "ok")
    assert reply.take() == [b"0", b"1"]
    assert reply.answered == ANSWER
