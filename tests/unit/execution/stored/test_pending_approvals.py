"""Calls awaiting approval: their rows, messages to clients, and exactly one end of each wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_app import conf
from mcp_app.execution.background import approval, reaper
from mcp_app.execution.background.celery import waiting
from mcp_app.execution.background.service import Background
from mcp_app.execution.decisions import DecisionRefused, approve_call, refuse_call
from mcp_app.execution.services import cancel_call
from mcp_app.execution.stored import pending_approvals, records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.next_call import RunningLimits, take
from mcp_app.models import AuditEvent, Call, Session
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import TooManyRequests
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from mcpsite.celery import app as celery
from tests.racing import at_once
from tests.samples.approved_work import guarded_tool
from tests.unit.execution.attempts import FIELDS, SESSION, SETTINGS, STREAM, new_call, stream_of
from tests.unit.execution.store import events_of, moody

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

QUEUE = "approval-tests"
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'
LONG_AGO = timedelta(hours=3)


@pytest.fixture(autouse=True)
def _stores(clean_redis: str, settings: object) -> Iterator[None]:
    """Use real Redis for streams and an empty in-memory broker."""
    assert waiting(QUEUE) >= 0
    with celery.connection_for_write() as made:
        made.default_channel.queue_purge(QUEUE)
    with override_settings(MCP={**settings.MCP, "REDIS_URL": clean_redis}):  # type: ignore[attr-defined]
        conf.forget()
        guarded_tool().save(force_insert=True)
        yield
    conf.forget()


@pytest.fixture
def operator() -> Any:
    return get_user_model().objects.create_user("operator")


def accepted(**changed: Any) -> CallRecord:
    """Return a call that waits for an hour."""
    call, is_new = pending_approvals.accept(new_call(approval_minutes=60, queue=QUEUE, **changed), 50)
    assert is_new
    return call


def row(call: CallRecord) -> Call:
    return Call.objects.get(pk=call.id)


def late(call: CallRecord) -> None:
    Call.objects.filter(pk=call.id).update(approval_until=timezone.now() - timedelta(seconds=1))


def silent(call: CallRecord) -> None:
    Call.objects.filter(pk=call.id).update(reminded_at=timezone.now() - LONG_AGO)


def said() -> list[dict[str, Any]]:
    """Return the messages on the stream of the call."""

    async def read() -> list[dict[str, Any]]:
        streams = Streams.connect(conf.get().redis_url)
        await streams.start()
        try:
            head = await streams.log.head(SESSION, STREAM)
            if head is None or head.offset == 0:
                return []
            page = await streams.log.read(SESSION, STREAM, head.epoch, 0)
            return [orjson.loads(event.data) for event in page.events]
        finally:
            await streams.close()

    return asyncio.run(read())


def test_call_needing_approval_is_stored_without_job_and_unclaimable() -> None:
    call = accepted(four_eyes=True)
    stored = row(call)
    assert (stored.state, stored.enqueued_at, stored.decision) == (State.APPROVAL_NEEDED, None, "")
    assert stored.four_eyes
    assert stored.approval_until == stored.accepted_at + timedelta(hours=1)
    assert records.claim(call.id, "worker") is None
    assert take(call.id, "worker", RunningLimits({"work": 5})) is None
    assert call.waits_for_approval
    assert not call.approved


def test_sweep_leaves_pending_approval_unchanged() -> None:
    call = accepted()
    Call.objects.filter(pk=call.id).update(
        accepted_at=timezone.now() - LONG_AGO, lease_until=timezone.now() - LONG_AGO
    )
    assert reaper.sweep() == 0
    assert waiting(QUEUE) == 0
    assert row(call).state == State.APPROVAL_NEEDED
    assert records.expired() == records.not_enqueued(0) == records.waiting(0) == []
    assert not records.release(call.id, 0)


def test_call_without_approval_is_accepted_with_one_statement() -> None:
    with CaptureQueriesContext(connection) as captured:
        records.accept(new_call())
    # On PostgreSQL in a transaction, so that a frozen server stores no refused call.
    statements = [each["sql"] for each in captured if each["sql"] not in ("BEGIN", "COMMIT")]
    assert len(statements) == 1


def test_repeated_request_attaches_at_approval_limit() -> None:
    first = accepted()
    again, is_new = pending_approvals.accept(new_call(approval_minutes=60), 1)
    assert (again.id, is_new) == (first.id, False)
    with pytest.raises(TooManyRequests):
        pending_approvals.accept(new_call(approval_minutes=60, request_id=2), 1)
    pending_approvals.accept(new_call(approval_minutes=60, request_id=2, principal="somebody else"), 1)
    assert Call.objects.count() == 2


def test_approved_call_is_queued_once_and_stays_approved_across_attempts(operator: Any) -> None:
    call = accepted()
    approve_call(call_id=call.id, actor=operator, reason="fine")
    stored = row(call)
    assert (stored.state, stored.decision, stored.decided_by, stored.decision_reason) == (
        State.ACCEPTED, "approved", operator, "fine",
    )  # fmt: skip
    assert stored.enqueued_at is not None
    assert waiting(QUEUE) == 1
    claimed = records.claim(call.id, "worker")
    assert claimed is not None
    assert claimed.approved
    Call.objects.filter(pk=call.id).update(lease_until=timezone.now() - LONG_AGO)
    assert records.release(call.id, 1)
    again = records.claim(call.id, "worker")
    assert again is not None
    assert (again.attempt, again.approved) == (2, True)


def test_sweep_requeues_approved_call_with_lost_job(operator: Any) -> None:
    call = accepted()
    pending_approvals.approve(call.id, by=operator.pk, reason="")  # The process died here.
    Call.objects.filter(pk=call.id).update(enqueued_at=timezone.now() - timedelta(seconds=30))
    assert reaper.sweep() == 1
    assert waiting(QUEUE) == 1


def _ends(call: CallRecord, operator: Any) -> dict[str, Callable[[], object]]:
    return {
        "approve": lambda: approve_call(call_id=call.id, actor=operator),
        "refuse": lambda: refuse_call(call_id=call.id, actor=operator, reason="no"),
        "stop": lambda: cancel_call(call_id=call.id, actor=operator),
        "expire": lambda: (late(call), approval.sweep()),
    }


@pytest.mark.parametrize(
    ("first", "state", "decision", "audited"),
    [
        ("approve", State.ACCEPTED, "approved", "call.approve"),
        ("refuse", State.FAILED, "refused", "call.refuse"),
        ("stop", State.CANCELLED, "", "call.stop"),
        ("expire", State.FAILED, "expired", "call.expire"),
    ],
)
@pytest.mark.parametrize("second", ["approve", "refuse", "expire"])
def test_first_of_two_endings_counts(
    first: str, second: str, state: str, decision: str, audited: str, operator: Any
) -> None:
    call = accepted()
    ends = _ends(call, operator)
    ends[first]()
    before = Call.objects.values("state", "decision", "answer", "decided_at").get(pk=call.id)
    assert (before["state"], before["decision"]) == (state, decision)
    if second == "expire":
        ends[second]()
    else:
        with pytest.raises(DecisionRefused):
            ends[second]()
    assert Call.objects.values("state", "decision", "answer", "decided_at").get(pk=call.id) == before
    assert list(AuditEvent.objects.values_list("action", flat=True)) == [audited]
    assert waiting(QUEUE) == (first == "approve")


def test_exactly_one_of_concurrent_decisions_succeeds(operator: Any) -> None:
    call = accepted()
    approve = partial(approve_call, call_id=call.id, actor=operator)
    refuse = partial(refuse_call, call_id=call.id, actor=operator, reason="no")
    told = [outcome for outcome in at_once([approve, refuse] * 3) if isinstance(outcome, Exception)]
    assert [type(refused) for refused in told] == [DecisionRefused] * 5
    assert all(str(refused).startswith("operator has ") for refused in told)
    assert AuditEvent.objects.count() == 1


def test_decision_on_call_without_approval_is_refused(operator: Any) -> None:
    call, _ = records.accept(new_call())
    for decide in (_ends(call, operator)["approve"], _ends(call, operator)["refuse"]):
        with pytest.raises(DecisionRefused, match="needs no approval"):
            decide()
    with pytest.raises(DecisionRefused, match="no such call"):
        approve_call(call_id=uuid4(), actor=operator)
    assert row(call).state == State.ACCEPTED


def test_command_may_decide_except_approve_under_four_eyes(operator: Any) -> None:
    call, guarded = accepted(), accepted(request_id=2, four_eyes=True, user_id=operator.pk)
    approve_call(call_id=call.id, actor=None)
    assert (row(call).decision, row(call).decided_by) == ("approved", None)
    with pytest.raises(DecisionRefused, match="Only another user"):
        approve_call(call_id=guarded.id, actor=None)
    refuse_call(call_id=guarded.id, actor=None, reason="no")
    assert row(guarded).decision == "refused"


def test_refused_call_is_answered_with_reason(operator: Any) -> None:
    call = accepted()
    refuse_call(call_id=call.id, actor=operator, reason=" too \0 late ")
    (answer,) = said()
    assert answer["result"] == {
        "content": [{"type": "text", "text": "work was refused by an administrator: too  late"}],
        "isError": True,
    }
    assert row(call).published
    assert reaper.sweep() == 0


def test_undecided_call_expires_with_error() -> None:
    call = accepted()
    late(call)
    assert reaper.sweep() == 1
    (answer,) = said()
    assert answer["result"]["isError"]
    assert "the call was not approved in time" in answer["result"]["content"][0]["text"]
    assert (row(call).decision, row(call).published) == ("expired", True)
    assert AuditEvent.objects.get().actor_name == "system"
    assert reaper.sweep() == 0


def test_pending_call_of_ended_session_is_cancelled() -> None:
    now = timezone.now()
    Session.objects.create(
        id=SESSION, principal="x", protocol_version="2025-11-25", created_at=now, last_seen_at=now
    )
    call, other = accepted(), accepted(session_id="another-session-of-tests")
    assert reaper.sweep() == 0
    Session.objects.update(ended_at=now, end_reason="idle")
    assert reaper.sweep() == 1
    assert (row(call).state, row(call).cancel_reason) == (State.CANCELLED, "the session ended")
    assert row(other).state == State.APPROVAL_NEEDED


def test_client_receives_repeated_reminders_and_then_approval(operator: Any) -> None:
    call = accepted()
    assert approval.sweep() == 0
    assert said() == []
    for minutes in (1, 2, 60):
        silent(call)
        Call.objects.filter(pk=call.id).update(accepted_at=timezone.now() - timedelta(minutes=minutes))
        approval.sweep()
        approval.sweep()  # Another process sweeps shortly afterwards.
    approve_call(call_id=call.id, actor=operator)
    heard = [message["params"] for message in said()]
    assert [params["message"] for params in heard] == ["Waiting for approval (60 min left)"] * 3 + [
        "Approved"
    ]
    numbers = [params["progress"] for params in heard]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0
    assert numbers[-1] < 0.001
    assert {params["progressToken"] for params in heard} == {"p"}


def test_no_reminder_follows_approval_message(operator: Any) -> None:
    call = accepted()
    approve_call(call_id=call.id, actor=operator)

    async def remind_late() -> None:
        streams = Streams.connect(conf.get().redis_url)
        await streams.start()
        await approval.notify(streams, call, "Waiting for approval")
        await streams.close()

    asyncio.run(remind_late())
    assert [message["params"]["message"] for message in said()] == ["Approved"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("info", "work", "Waiting for approval (60 min left)")]),
        ({"log_level": "error"}, []),
    ],
)
async def test_client_without_progress_token_is_notified_once_by_log_level(
    fields: dict[str, str], expected: list[Any], streams: Streams
) -> None:
    background = Background(streams, SETTINGS)
    new = new_call(approval_minutes=60, meta={}, session_fields={**FIELDS, **fields}, queue=QUEUE)
    stream, position = await stream_of(background, new)
    page = await streams.log.read(SESSION, stream, position.epoch, 0)
    messages = [orjson.loads(event.data)["params"] for event in page.events]
    assert [(each["level"], each["logger"], each["data"]) for each in messages] == expected
    await Call.objects.aupdate(reminded_at=timezone.now() - LONG_AGO)
    assert await sync_to_async(approval.sweep)() == 0
    assert (await streams.log.head(SESSION, stream)).offset == len(expected)  # type: ignore[union-attr]


async def test_pending_call_is_accepted_if_client_cannot_be_notified(streams: Streams) -> None:
    background = Background(streams, SETTINGS)
    moody(streams).faults = [None, StreamsUnavailable("away")]
    queued = waiting(QUEUE)
    await background.accept(new_call(approval_minutes=60, queue=QUEUE))
    assert (await Call.objects.aget()).state == State.APPROVAL_NEEDED
    assert waiting(QUEUE) == queued


async def test_cancel_and_session_end_cancel_pending_calls(
    streams: Streams,
) -> None:
    background = Background(streams, SETTINGS)
    for number in (1, 2):
        stream = f"call-{number}"
        await background.accept(new_call(approval_minutes=60, request_id=number, stream=stream, queue=QUEUE))
    assert await background.cancel(SESSION, 1, "enough")
    assert await Call.objects.filter(state=State.CANCELLED, cancel_reason="enough").acount() == 1
    head = await streams.log.head(SESSION, "call-1")
    assert head is not None
    *_, answer = [event.data for event in await events_of(streams, SESSION, "call-1", head.epoch)]
    assert b"-32800" in answer
    await background.cancel_session(SESSION, "ended")
    assert await Call.objects.filter(state=State.CANCELLED).acount() == 2


async def test_approval_above_limit_is_refused_and_leaves_no_stream(streams: Streams) -> None:
    background = Background(streams, replace(SETTINGS, max_waiting_approvals_per_principal=0))
    with pytest.raises(TooManyRequests):
        await background.accept(new_call(approval_minutes=60))
    assert await streams.log.head(SESSION, STREAM) is None
    assert await Call.objects.acount() == 0


async def test_repeated_request_follows_pending_call_without_second_notice(streams: Streams) -> None:
    background = Background(streams, SETTINGS)
    first = await stream_of(background, new_call(approval_minutes=60, queue=QUEUE))
    assert await stream_of(background, new_call(approval_minutes=60, queue=QUEUE, stream="call-2")) == first
    head = await streams.log.head(SESSION, STREAM)
    assert head is not None
    assert head.offset == 1
    assert await streams.log.head(SESSION, "call-2") is None
