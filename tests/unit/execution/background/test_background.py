"""Background calls in a web process: accept, attach, refuse, cancel, restore a lost answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import DatabaseError

from mcp_app.execution.background import service
from mcp_app.execution.background.celery import waiting
from mcp_app.execution.background.service import Background
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import call_record, records
from mcp_app.execution.stored.acceptance import new_stream
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.limits.limiter import Ticket
from mcp_app.limits.rules import CONCURRENT
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import InvalidParams, TooManyRequests, Unavailable
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.execution.attempts import SESSION, SETTINGS, claimed, new_call, stream_of
from tests.unit.execution.store import events_of, moody, told
from tests.unit.limits.rules import bucket

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.fixture
def background(streams: Streams) -> Background:
    return Background(streams, SETTINGS)


async def only_call() -> CallRecord:
    return call_record.record(await Call.objects.aget())


async def said(streams: Streams, stream: str) -> list[bytes]:
    head = await streams.log.head(SESSION, stream)
    assert head is not None
    return [data for _, data in told(await events_of(streams, SESSION, stream, head.epoch))]


async def test_accepted_call_has_row_stream_and_job(background: Background, streams: Streams) -> None:
    queued = waiting("celery")
    stream, position = await stream_of(background, new_call())
    head = await streams.log.head(SESSION, stream)
    assert head is not None
    assert (head.epoch, head.offset) == (position.epoch, position.offset)
    row = await Call.objects.aget()
    assert (row.state, row.stream) == (State.ACCEPTED, stream)
    assert row.enqueued_at is not None
    assert waiting("celery") == queued + 1


async def test_repeated_request_attaches_to_existing_call(background: Background, streams: Streams) -> None:
    first = await stream_of(background, new_call())
    queued = waiting("celery")
    other = new_stream()
    assert await stream_of(background, new_call(stream=other)) == first
    assert waiting("celery") == queued
    assert await streams.log.head(SESSION, other) is None
    assert await Call.objects.acount() == 1


async def test_repeated_request_attaches_despite_full_backlog(streams: Streams) -> None:
    full = Background(streams, replace(SETTINGS, max_open_background_calls_per_principal=1))
    first = await stream_of(full, new_call())
    assert await stream_of(full, new_call(stream=new_stream())) == first
    with pytest.raises(TooManyRequests):
        await full.accept(new_call(request_id=2, stream=new_stream()))
    assert await Call.objects.acount() == 1


@pytest.mark.parametrize("fault", ["log", "database", "state", "cancelled"])
async def test_call_that_is_not_stored_frees_its_place(
    fault: str, background: Background, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, first = bucket(CONCURRENT, concurrent=1), new_stream()

    async def failing(*_: Any) -> Any:
        raise {"state": InvalidParams("used"), "cancelled": asyncio.CancelledError()}.get(
            fault, DatabaseError("away")
        )

    with monkeypatch.context() as patched:
        if fault == "log":
            moody(streams).faults = [StreamsUnavailable("away")]
        elif fault == "database":
            patched.setattr(service, "aquery_soon", failing)
        else:
            patched.setattr(service, "spend", failing)
        with pytest.raises((Unavailable, StreamsUnavailable, InvalidParams, asyncio.CancelledError)):
            await background.accept(new_call(stream=first, ticket=Ticket((place,), holder=first)), Inputs())
    other = new_stream()
    await background.accept(new_call(stream=other, ticket=Ticket((place,), holder=other)))


async def test_call_that_ends_while_it_is_counted_frees_its_place(
    background: Background, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, limiter = bucket(CONCURRENT, concurrent=1), background.gate.limiter
    rate = bucket(rate=1)

    async def never(_: Any) -> float:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(limiter.leases, "take", never)
        with pytest.raises(asyncio.CancelledError):
            await limiter.admit(Ticket((place, rate), holder="inline-a"))
    await limiter.admit(Ticket((place, rate), holder="inline-b"))


async def test_call_is_not_accepted_without_event_log(background: Background, streams: Streams) -> None:
    moody(streams).faults = [StreamsUnavailable("away")]
    with pytest.raises(StreamsUnavailable):
        await background.accept(new_call())
    assert await Call.objects.acount() == 0


async def test_lost_stream_of_finished_call_is_restored_with_answer(
    background: Background, streams: Streams
) -> None:
    stream, before = await stream_of(background, new_call())
    call = await only_call()
    await sync_to_async(records.claim)(call.id, "w")
    await sync_to_async(records.finish)(call.id, 1, State.COMPLETED, "ok", ANSWER)
    await streams.log.drop(SESSION, stream)
    found = await background.lost_stream(SESSION, stream)
    assert found is not None
    assert found[0] == stream
    assert found[1].epoch != before.epoch
    assert await said(streams, stream) == [ANSWER]


@pytest.mark.parametrize("stream", ["call-unknown", "post-1", "standalone"])
async def test_lost_stream_of_no_call_is_not_restored(background: Background, stream: str) -> None:
    assert await background.lost_stream(SESSION, stream) is None


async def test_lost_stream_is_not_restored_for_another_session(background: Background) -> None:
    stream, _ = await stream_of(background, new_call())
    assert await background.lost_stream("another-session-of-tests", stream) is None


async def test_cancel_before_start_ends_call_immediately(background: Background, streams: Streams) -> None:
    stream, _ = await stream_of(background, new_call())
    assert await background.cancel(SESSION, 1, "enough")
    row = await Call.objects.aget()
    assert (row.state, row.outcome, row.published) == (State.CANCELLED, "cancelled", True)
    assert b"-32800" in (await said(streams, stream))[0]
    assert await sync_to_async(records.claim)(row.pk, "late") is None


async def test_cancel_of_running_call_is_stored_and_broadcast(
    background: Background, streams: Streams
) -> None:
    heard: list[dict[str, Any]] = []
    streams.hub.subscribe("cancel", heard.append)
    await sync_to_async(claimed)()
    assert await background.cancel(SESSION, 1, "enough")
    row = await Call.objects.aget()
    assert (row.state, row.cancel_reason) == (State.RUNNING, "enough")
    assert {"session": SESSION, "request_id": 1, "call": str(row.pk), "reason": "enough"} in heard


@pytest.mark.parametrize("named", [("another-session-of-tests", 1), (SESSION, "1"), (SESSION, 2)])
async def test_cancel_of_unknown_request_changes_nothing(
    background: Background, named: tuple[str, str | int]
) -> None:
    await background.accept(new_call())
    assert not await background.cancel(*named, "enough")
    assert (await Call.objects.aget()).cancel_reason == ""


async def test_session_end_cancels_all_its_calls(background: Background) -> None:
    await background.accept(new_call())
    await background.accept(new_call(request_id=2, stream=new_stream()))
    await background.accept(new_call(session_id="another-session-of-tests", stream=new_stream()))
    await background.cancel_session(SESSION, "ended")
    assert await Call.objects.filter(state=State.CANCELLED).acount() == 2
