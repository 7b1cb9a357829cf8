"""The output of an attempt: fenced messages, and one answer, stored before it is published."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from asgiref.sync import sync_to_async

from mcp_app.execution.background.answer_streams import publish, reported_progress
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker.attempt_reply import AttemptReply
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.execution.attempts import FIELDS, SESSION, STREAM, claimed
from tests.unit.execution.store import moody, told

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


async def running() -> CallRecord:
    return await sync_to_async(claimed)()


async def row_of(call: CallRecord) -> Call:
    return await Call.objects.aget(pk=call.id)


async def said(streams: Streams) -> list[tuple[str, bytes]]:
    head = await streams.log.head(SESSION, STREAM)
    return [] if head is None else told((await streams.log.read(SESSION, STREAM, head.epoch, 0)).events)


async def test_messages_and_answer_reach_stream_and_row(streams: Streams) -> None:
    call, published = await running(), Published()
    reply = AttemptReply(streams, call, published)
    reply.send(b"1")
    reply.send(b"2")
    reply.answer(ANSWER)
    reply.send(b"late")
    await reply.done()
    await published.flush()
    assert [data for _, data in await said(streams)] == [b"1", b"2", ANSWER]
    row = await row_of(call)
    assert (row.state, row.outcome, row.answer, row.published) == ("completed", "ok", ANSWER.decode(), True)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ("ok", "completed"),
        ("asked", "completed"),
        ("tool_error", "completed"),
        ("error", "failed"),
        ("cancelled", "cancelled"),
    ],
)
async def test_outcome_determines_state(streams: Streams, outcome: str, state: str) -> None:
    call = await running()
    reply = AttemptReply(streams, call, Published())
    reply.answer(ANSWER, outcome)
    await reply.done()
    row = await row_of(call)
    assert (row.state, row.outcome) == (state, outcome)


async def test_only_first_answer_counts(streams: Streams) -> None:
    call = await running()
    reply = AttemptReply(streams, call, Published())
    reply.answer(ANSWER)
    reply.answer(b"another", "error")
    await reply.done()
    assert [data for _, data in await said(streams)] == [ANSWER]


async def test_superseded_attempt_writes_nothing(streams: Streams) -> None:
    call = await running()
    await Call.objects.filter(pk=call.id).aupdate(attempt=2)
    await streams.log.append(SESSION, STREAM, b"of the second attempt", fence=2)
    reply = AttemptReply(streams, call, Published())
    reply.send(b"stale")
    reply.answer(ANSWER)
    await reply.done()
    assert reply.abandoned
    assert [data for _, data in await said(streams)] == [b"of the second attempt"]
    assert (await row_of(call)).state == State.RUNNING


async def test_unpublished_answer_is_stored_and_published_once_later(streams: Streams) -> None:
    call = await running()
    log = moody(streams)
    log.faults = [StreamsUnavailable("away")]
    reply = AttemptReply(streams, call, Published())
    reply.answer(ANSWER)
    await reply.done()
    assert await said(streams) == []
    row = await row_of(call)
    assert (row.state, row.published) == ("completed", False)
    found = await sync_to_async(records.unpublished)(-1)
    assert [each.id for each in found] == [call.id]
    # However often it is retried, one answer is published.
    for _ in range(2):
        assert await publish(streams, found[0], found[0].answer)
    assert [data for _, data in await said(streams)] == [ANSWER]
    assert (await row_of(call)).published


async def test_messages_are_dropped_during_log_outage_and_answer_is_not(streams: Streams) -> None:
    call = await running()
    log = moody(streams)
    log.faults = [StreamsUnavailable("away"), None]
    reply = AttemptReply(streams, call, Published())
    reply.send(b"shed")
    reply.send(b"kept")
    reply.answer(ANSWER)
    await reply.done()
    notice, *rest = [data for _, data in await said(streams)]
    assert orjson.loads(notice)["params"]["data"].endswith("Left out here: 1.")
    assert rest == [b"kept", ANSWER]


async def test_unsendable_question_notifies_asker(streams: Streams) -> None:
    moody(streams).faults = [StreamsUnavailable("away")]
    reply = AttemptReply(streams, await running(), Published())
    told: list[str] = []
    reply.send(b"q", lost=told.append)
    reply.answer(ANSWER)
    await reply.done()
    assert ["cannot be asked now" in words for words in told] == [True]
    assert [data for _, data in await said(streams)] == [ANSWER]


async def test_answer_of_ended_session_counts_as_published(streams: Streams) -> None:
    call = await running()
    await streams.sessions.create(SESSION, {"version": "2025-11-25"}, 60)
    await streams.sessions.end(SESSION, 60)
    published = Published()
    reply = AttemptReply(streams, call, published)
    reply.answer(ANSWER)
    await reply.done()
    await published.flush()
    assert (await row_of(call)).published


async def test_outcome_is_stored_after_the_stream_has_refused_a_message(streams: Streams) -> None:
    call = await running()
    await streams.sessions.create(SESSION, {"version": "2025-11-25"}, 60)
    await streams.sessions.end(SESSION, 60)
    reply = AttemptReply(streams, call, Published())
    reply.send(b"the question is withdrawn")
    while not reply.abandoned:
        await asyncio.sleep(0)
    reply.answer(ANSWER, "cancelled")
    assert await reply.done()
    assert (await row_of(call)).state == State.CANCELLED


def progress(number: float) -> bytes:
    params = {"progressToken": "p", "progress": number}
    return orjson.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


@pytest.mark.parametrize(
    ("events", "greatest"),
    [
        ([], None),
        ([b'{"method":"notifications/message"}'], None),
        ([progress(0)], 0),
        ([progress(1), b'{"method":"other","params":"notifications/progress"}', progress(2.5)], 2.5),
        ([progress(number) for number in range(450)], 449),
    ],
)
async def test_reported_progress_is_read_from_stream(
    streams: Streams, events: list[bytes], greatest: float | None
) -> None:
    call = await running()
    for event in events:
        await streams.log.append(SESSION, STREAM, event)
    assert await reported_progress(streams, call) == greatest


async def test_reported_progress_is_none_without_log(streams: Streams) -> None:
    assert await reported_progress(streams, await running()) is None


async def asking(streams: Streams, *, stopped: bool) -> Call:
    """Return the row of a task whose attempt ended with a question, possibly cancelled before."""
    modern = {**FIELDS, "version": "2026-07-28"}
    call = await sync_to_async(claimed)(task_seconds=60, inputs=Inputs().stored(), session_fields=modern)
    inputs = Inputs(kept=True)
    inputs.leave_open("a", "roots/list", {})
    if stopped:
        await sync_to_async(records.request_cancel_of)(call.id, "enough")
    reply = AttemptReply(streams, call, Published(), inputs)
    reply.answer(ANSWER, "asked")
    assert await reply.done()
    return await row_of(call)


@pytest.mark.requirement("TASKX-08")
async def test_task_question_ends_attempt_but_not_call(streams: Streams) -> None:
    heard: list[dict[str, str]] = []
    streams.hub.subscribe("task", heard.append)
    row = await asking(streams, stopped=False)
    assert (row.state, row.lease_until, row.answer) == ("input_required", None, "")
    assert orjson.loads(row.inputs or "")["open"].keys() == {"a"}
    assert await said(streams) == []
    await asyncio.sleep(0)
    assert heard == [{"id": str(row.pk)}]


async def test_cancelled_task_ends_instead_of_asking(streams: Streams) -> None:
    row = await asking(streams, stopped=True)
    assert (row.state, row.outcome) == ("cancelled", "cancelled")
