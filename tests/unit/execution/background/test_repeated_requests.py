"""R7: a repeated request id is a retry only while its call is open or its answer is undelivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from mcp_app.execution.background.service import Background
from mcp_app.execution.stored import records
from mcp_app.execution.stored.acceptance import new_stream
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import InvalidRequest, TooManyRequests
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.streams.gateway import Streams
from tests.unit.execution.attempts import SESSION, SETTINGS, new_call

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
SAME: dict[str, Any] = {}
OTHERS: tuple[dict[str, Any], ...] = ({"arguments": {"steps": 4}}, {"tool": "another"})
Prepare = Callable[[Background, CallRecord], Awaitable[None]]


@pytest.fixture
def background(streams: Streams) -> Background:
    return Background(streams, SETTINGS)


async def waiting(_: Background, __: CallRecord) -> None:
    """Leave the call in its accepted state."""


async def running(_: Background, call: CallRecord) -> None:
    await sync_to_async(records.claim)(call.id, "w")


async def undelivered(background: Background, call: CallRecord) -> None:
    await running(background, call)
    await sync_to_async(records.finish)(call.id, 1, State.COMPLETED, "ok", ANSWER)


async def delivered(background: Background, call: CallRecord) -> None:
    await undelivered(background, call)
    background.delivered(call.stream)


async def undelivered_for_long(background: Background, call: CallRecord) -> None:
    await undelivered(background, call)
    row = await Call.objects.aget(pk=call.id)
    row.finished_at -= timedelta(seconds=SETTINGS.stream_ttl_seconds + 1)
    await row.asave(update_fields=["finished_at"])


async def cancelled_by_its_client(background: Background, call: CallRecord) -> None:
    await running(background, call)
    assert await background.cancel(SESSION, 1, "enough")


async def accepted(background: Background, **changed: Any) -> CallRecord:
    return (await background.accept(new_call(stream=new_stream(), **changed)))[0]


@pytest.mark.parametrize("prepare", [waiting, running, undelivered])
async def test_retry_of_unanswered_call_attaches_to_call(background: Background, prepare: Prepare) -> None:
    first = await accepted(background)
    await prepare(background, first)
    assert (await accepted(background)).id == first.id
    assert await Call.objects.acount() == 1


@pytest.mark.parametrize("work", [SAME, *OTHERS])
@pytest.mark.parametrize("prepare", [delivered, undelivered_for_long, cancelled_by_its_client])
async def test_request_id_of_answered_call_starts_new_call_each_time(
    background: Background, prepare: Prepare, work: dict[str, Any]
) -> None:
    found = set()
    for _ in range(3):
        call = await accepted(background, **work)
        found.add(call.id)
        await prepare(background, call)
    assert len(found) == 3


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("prepare", [waiting, running])
async def test_different_work_under_in_flight_id_is_refused(
    background: Background, streams: Streams, prepare: Prepare, other: dict[str, Any]
) -> None:
    await prepare(background, await accepted(background))
    stream = new_stream()
    with pytest.raises(InvalidRequest, match="still in flight") as refused:
        await background.accept(new_call(stream=stream, **other))
    assert (refused.value.code, refused.value.http_status) == (-32600, 200)
    assert await streams.log.head(SESSION, stream) is None


@pytest.mark.parametrize("other", OTHERS)
async def test_different_work_does_not_attach_to_undelivered_answer(
    background: Background, other: dict[str, Any]
) -> None:
    first = await accepted(background)
    await undelivered(background, first)
    assert (await accepted(background, **other)).id != first.id


async def test_delivery_by_another_process_frees_request_id(streams: Streams) -> None:
    deliverer, other = Background(streams, SETTINGS), Background(streams, SETTINGS)
    first = await accepted(deliverer)
    await delivered(deliverer, first)
    assert (await accepted(other)).id != first.id


async def test_request_id_of_task_is_reusable_after_client_named_task(
    background: Background,
) -> None:
    fields = {"session_fields": {**new_call().session_fields, "version": "2025-11-25"}}
    first = await accepted(background, task_seconds=60.0, **fields)
    assert (await accepted(background, task_seconds=60.0, **fields)).id == first.id
    assert await background.task(str(first.id), first.principal, ENDPOINT, core=True)
    second = await accepted(background, task_seconds=60.0, **fields)
    assert second.id != first.id
    third = await accepted(background, task_seconds=60.0, arguments={"steps": 4}, **fields)
    assert third.id not in (first.id, second.id)


async def test_full_backlog_accepts_retries_and_refuses_new_calls(streams: Streams) -> None:
    full = Background(streams, replace(SETTINGS, max_open_background_calls_per_principal=1))
    first = await accepted(full)
    assert (await accepted(full)).id == first.id
    await accepted(Background(streams, SETTINGS), request_id=2)
    await delivered(full, first)
    with pytest.raises(TooManyRequests):
        await accepted(full)
