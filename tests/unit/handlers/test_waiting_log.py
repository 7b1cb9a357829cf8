"""The message log shows the request of a waiting call before its answer exists."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from mcp_app.auth.principal import LOOPBACK
from mcp_app.execution.background import waiting_log
from mcp_app.execution.background.ended_log import log_queued
from mcp_app.execution.calls.reply import StreamReference
from mcp_app.execution.stored.call_record import record
from mcp_app.message_log.log import FACTS, KIND, PAYLOAD, PRINCIPAL, SESSION_ID
from mcp_app.models import Call
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from mcp_app.streams.gateway import Streams
from tests.clients.envelopes import envelope_of
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.desk import offer
from tests.unit.handlers.modern_desk import ModernDesk, start
from tests.views import SERVER

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def work() -> str:
    """Works."""
    return "done"


@pytest.fixture
async def desk(streams: Streams) -> AsyncIterator[ModernDesk]:
    made = ModernDesk(streams, redis_url="redis://nowhere.invalid", grace_seconds=0.01, message_log=True)
    offer(
        tools=[
            tool_entry(work, 1, name="plain", background=True),
            tool_entry(work, 2, name="watched", needs_approval=True),
        ]
    )
    yield made
    if (looking := made.process.background.waiting._looking) is not None:
        looking.cancel()
    await made.process.calls.close(0.01)


def marks(desk: ModernDesk) -> list[tuple[Any, ...]]:
    pending = desk.process.log._pending
    return [
        (line[SESSION_ID], line[PRINCIPAL], line[PAYLOAD], *line[FACTS])
        for line in pending
        if line[KIND] in ("waiting", "queued")
    ]


def kinds(desk: ModernDesk) -> list[str]:
    return [line[KIND] for line in desk.process.log._pending if line[KIND] in ("waiting", "queued")]


async def legacy(desk: ModernDesk, tool: str, request_id: int = 1) -> str:
    session = await desk.open()
    request = jsonrpc.Request(request_id, "tools/call", {"name": tool})
    outcome = await desk.process.dispatcher.request(desk.asked(session), request, b'{"id":1}')
    assert isinstance(outcome, StreamReference)
    return session.id


async def look(desk: ModernDesk) -> None:
    """Let waiting calls be examined after enough time to start."""
    calls = [call.pk async for call in Call.objects.all()]
    await desk.process.background.waiting.log_unstarted(calls)


async def test_call_awaiting_approval_is_logged_immediately(desk: ModernDesk) -> None:
    session = await legacy(desk, "watched")
    assert marks(desk) == [(session, LOOPBACK.key, b'{"id":1}', "tools/call", "1", "watched")]
    assert kinds(desk) == ["waiting"]


async def test_modern_call_awaiting_approval_is_logged_immediately(desk: ModernDesk) -> None:
    exchange = Exchange(envelope_of(), LOOPBACK.key, SERVER)
    request = jsonrpc.Request(7, "tools/call", {"name": "watched"})
    reply = await desk.process.dispatcher.exchange(desk.asked(exchange), request, b"{}")
    reply.close()
    assert marks(desk) == [(exchange.record_id, LOOPBACK.key, b"{}", "tools/call", "7", "watched")]


async def test_task_awaiting_approval_is_logged_immediately(desk: ModernDesk) -> None:
    await desk.make("watched")
    assert [(mark[0], mark[-1]) for mark in marks(desk)] == [(desk.exchange.record_id, "watched")]


async def test_call_waiting_for_worker_is_logged_after_delay(desk: ModernDesk) -> None:
    session = await legacy(desk, "plain")
    assert marks(desk) == []
    await look(desk)
    assert [mark[0] for mark in marks(desk)] == [session]
    assert kinds(desk) == ["queued"]


async def test_started_call_is_left_to_worker_log(desk: ModernDesk) -> None:
    await legacy(desk, "plain")
    begun = await Call.objects.aget()
    session = await legacy(desk, "plain")
    await start(str(begun.pk))
    await look(desk)
    assert [mark[0] for mark in marks(desk)] == [session]


async def test_pending_requests_are_bounded_by_bytes(
    desk: ModernDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_log, "MOST_BYTES", len(b'{"id":1}'))
    session = await legacy(desk, "plain")
    await legacy(desk, "plain")
    first = await Call.objects.aget(session_id=session)
    await desk.process.background.waiting.log_unstarted([first.pk])
    assert [mark[0] for mark in marks(desk)] == [session]
    # A dropped request frees its space.
    session = await legacy(desk, "plain")
    third = await Call.objects.aget(session_id=session)
    await desk.process.background.waiting.log_unstarted([third.pk])
    assert len(marks(desk)) == 2


async def test_waiting_calls_are_examined_repeatedly(
    desk: ModernDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_log, "WAIT_SECONDS", 0)
    for number in (1, 2):
        await legacy(desk, "plain")
        async with asyncio.timeout(10):
            while len(marks(desk)) < number:
                await asyncio.sleep(0)
        assert len(marks(desk)) == number


async def test_approved_call_is_logged_as_queued_with_the_same_identity(
    desk: ModernDesk, streams: Streams, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "MESSAGE_LOG": True}
    await legacy(desk, "watched")
    await desk.process.log.flush()
    await log_queued(streams, record(await Call.objects.aget()))
    batches = [orjson.loads(batch) for _, batch in await streams.messages.read("0", 10)]
    waiting, queued = (line for batch in batches for line in batch["lines"])
    assert (waiting[KIND], queued[KIND]) == ("waiting", "queued")
    for member in (SESSION_ID, PRINCIPAL, FACTS):
        assert waiting[member] == queued[member]
