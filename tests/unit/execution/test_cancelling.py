"""Cancelling all calls of a principal: same effect as one by one, in few statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_app import conf
from mcp_app.execution.services import CANCEL_SLICE, cancel_call, cancel_calls_of
from mcp_app.execution.stored import pending_approvals, records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import AuditEvent, Call
from mcp_app.protocol.call_state import State
from mcp_app.streams.gateway import Streams
from tests.racing import at_once
from tests.unit.execution.attempts import SESSION, claimed, new_call
from tests.unit.execution.store import events_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

OWNER = "user:7/oauth/2"
REASON = "the connection ended"


@pytest.fixture(autouse=True)
def _redis(clean_redis: str, settings: object) -> Iterator[None]:
    with override_settings(MCP={**settings.MCP, "REDIS_URL": clean_redis}):  # type: ignore[attr-defined]
        conf.forget()
        yield
    conf.forget()


@pytest.fixture
def operator() -> Any:
    return get_user_model().objects.create_user("operator")


def accepted(number: int, owner: str = OWNER, **changed: Any) -> CallRecord:
    new = new_call(request_id=number, stream=f"call-{number}", principal=owner, **changed)
    return records.accept(new)[0]


def suspended(number: int) -> CallRecord:
    call = claimed(request_id=number, stream=f"call-{number}", principal=OWNER)
    Call.objects.filter(pk=call.id).update(state=State.INPUT_REQUIRED, lease_until=None)
    return call


def kept(call: CallRecord) -> dict[str, Any]:
    """Return how a row ended, without ids and times."""
    row = Call.objects.get(pk=call.id)
    names = ("state", "outcome", "cancel_reason", "published", "inputs", "attempt")
    moments = ("finished_at", "cancel_requested_at", "lease_until")
    answer = orjson.loads(row.answer) if row.answer else None
    if answer:
        assert answer.pop("id") == call.request_id
    there = {name: getattr(row, name) is not None for name in moments}
    return {**{name: getattr(row, name) for name in names}, **there, "answer": answer}


def each_kind(first: int) -> list[CallRecord]:
    """Return a call waiting for a worker, one for approval, one for its client, and a running one."""
    running = claimed(request_id=first + 3, stream=f"call-{first + 3}", principal=OWNER)
    approval = new_call(
        request_id=first + 1, stream=f"call-{first + 1}", principal=OWNER, approval_minutes=60
    )
    waiting, _ = pending_approvals.accept(approval, 50)
    return [accepted(first), waiting, suspended(first + 2), running]


def test_bulk_cancel_ends_and_audits_like_single_cancels(operator: Any) -> None:
    alone = each_kind(1)
    for call in alone:
        assert cancel_call(call_id=call.id, actor=operator, reason=REASON)
    said = list(AuditEvent.objects.order_by("pk").values_list("actor_name", "action", "detail"))
    together = each_kind(11)
    cancel_calls_of(OWNER, actor=operator, reason=REASON)
    assert [kept(call) for call in together] == [kept(call) for call in alone]
    unstarted = Call.objects.filter(pk__in=[call.id for call in together[:2]])
    assert list(unstarted.values_list("start_tag", flat=True)) == [0.0, 0.0]
    assert [kept(call)["state"] for call in together] == [*[State.CANCELLED] * 3, State.RUNNING]
    events = AuditEvent.objects.filter(object_key__in=[str(call.id) for call in together])
    again = [(event.actor_name, event.action, event.detail) for event in events]
    assert sorted(again, key=str) == sorted(said, key=str)


def test_bulk_cancel_skips_other_principals_and_finished_calls(operator: Any) -> None:
    other, over = accepted(1, "user:8/oauth/2"), accepted(2)
    cancel_call(call_id=over.id, actor=operator, reason="enough")
    before = AuditEvent.objects.count()
    cancel_calls_of(OWNER, actor=operator, reason=REASON)
    assert kept(other)["state"] == State.ACCEPTED
    assert kept(over)["cancel_reason"] == "enough"
    assert AuditEvent.objects.count() == before


def test_first_cancel_request_is_kept(operator: Any) -> None:
    call = claimed(request_id=1, principal=OWNER)
    cancel_call(call_id=call.id, actor=operator, reason="enough")
    cancel_calls_of(OWNER, actor=operator, reason=REASON)
    assert kept(call)["cancel_reason"] == "enough"


async def test_bulk_cancel_publishes_each_answer_to_its_client(clean_redis: str) -> None:
    calls = [await sync_to_async(accepted)(number) for number in (1, 2)]
    await sync_to_async(cancel_calls_of)(OWNER, actor=None, reason=REASON)
    streams = Streams.connect(clean_redis)
    await streams.start()
    try:
        for call in calls:
            head = await streams.log.head(SESSION, call.stream)
            assert head is not None
            (answer,) = [event.data for event in await events_of(streams, SESSION, call.stream, head.epoch)]
            assert (orjson.loads(answer)["id"], b"-32800" in answer) == (call.request_id, True)
    finally:
        await streams.close()
    assert not await Call.objects.filter(published=False).aexists()


def test_bulk_cancel_statement_count_is_constant(operator: Any) -> None:
    counts = []
    for many in (2, 40):
        for number in range(many):
            accepted(number, session_id=f"{SESSION}-{many}")
        with CaptureQueriesContext(
            connection,
        ) as asked:
            cancel_calls_of(OWNER, actor=operator, reason=REASON)
        counts.append(len(asked))
        assert not Call.objects.filter(state=State.ACCEPTED).exists()
    assert counts[0] == counts[1] < 15
    assert CANCEL_SLICE > 40


def test_concurrent_bulk_cancels_do_not_deadlock_and_audit_once(operator: Any) -> None:
    calls = [accepted(number) for number in range(30)]
    ended = at_once([lambda: cancel_calls_of(OWNER, actor=operator, reason=REASON)] * 2)
    assert ended == [None, None]
    assert {kept(call)["state"] for call in calls} == {State.CANCELLED}
    assert AuditEvent.objects.filter(action="call.stop").count() == 30
