"""Rows of calls: every change is a compare-and-set, so exactly one of two racing writers wins."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from mcp_app.execution.stored import call_record, pending_approvals, records, statements, task_records
from mcp_app.execution.stored.call_record import CallRecord, NewCall
from mcp_app.models import Call
from mcp_app.protocol.call_state import State, Transition
from tests.racing import at_once

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def new_call(**changed: Any) -> NewCall:
    values: dict[str, Any] = {
        "session_id": "a-session-of-these-tests",
        "request_id": 1,
        "principal": "loopback",
        "user_id": None,
        "api_key_id": None,
        "tool": "work",
        "arguments": {"steps": 3},
        "meta": {"progressToken": "p"},
        "session_fields": {"version": "2025-11-25"},
        "stream": "call-1",
        "timeout": 60.0,
        "max_attempts": 2,
    }
    return NewCall(**values | changed)


def accepted(**changed: Any) -> CallRecord:
    return records.accept(new_call(**changed))[0]


def claimed(**changed: Any) -> CallRecord:
    call = records.claim(accepted(**changed).id, "worker")
    assert call is not None
    return call


def end(call: CallRecord, attempt: int | None = None, **more: Any) -> bool:
    number = call.attempt if attempt is None else attempt
    return records.finish(call.id, number, State.COMPLETED, "ok", ANSWER, **more)


def expire(call: CallRecord) -> None:
    Call.objects.filter(pk=call.id).update(lease_until=timezone.now() - timedelta(seconds=1))


def state(call: CallRecord) -> str:
    return str(Call.objects.get(pk=call.id).state)


def test_accepted_call_is_found_unchanged() -> None:
    call, is_new = records.accept(new_call())
    assert is_new
    assert records.find(call.id) == records.find_by_stream(call.session_id, call.stream) == call
    assert (call.state, call.attempt, call.arguments, call.meta) == (
        "accepted",
        0,
        {"steps": 3},
        {"progressToken": "p"},
    )
    assert not call.is_finished


def test_repeated_request_returns_existing_call() -> None:
    first = accepted()
    second, is_new = records.accept(new_call(stream="call-2"))
    assert (second, is_new) == (first, False)


@pytest.mark.parametrize(
    "other", [{"request_id": "1"}, {"request_id": 2}, {"session_id": "another-session-of-tests"}]
)
def test_other_request_id_or_session_is_new_call(other: dict[str, Any]) -> None:
    assert accepted().id != accepted(stream="call-2", **other).id


def test_digest_depends_on_arguments_but_not_on_their_order() -> None:
    assert call_record.digest("work", {"a": 1, "b": 2}) == call_record.digest("work", {"b": 2, "a": 1})
    assert call_record.digest("work", {"a": 1}) != call_record.digest("work", {"a": "1"})
    assert call_record.digest("work", {}) != call_record.digest("other", {})


@pytest.mark.parametrize("text", ["\0", "a\0b", "\u2028", "😀", "'; DROP TABLE", "\\u0000"])
def test_arbitrary_text_in_arguments_round_trips(text: str) -> None:
    call = accepted(arguments={text: text}, meta={"x/y": text}, request_id=text)
    found = records.find(call.id)
    assert found is not None
    assert (found.arguments, found.meta, found.request_id) == ({text: text}, {"x/y": text}, text)


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 5_000])
def test_arbitrary_reason_and_progress_message_are_stored(text: str) -> None:
    call = claimed()
    assert records.renew(call.id, call.attempt, (1.0, None, text)).held
    cancelled = records.request_cancel(call.session_id, call.request_id, text)
    assert cancelled is not None
    assert cancelled.cancel_reason
    assert "\0" not in cancelled.cancel_reason


def test_job_delivered_twice_is_claimed_once() -> None:
    call = accepted()
    first = records.claim(call.id, "a")
    assert first is not None
    assert (first.state, first.attempt) == ("running", 1)
    assert records.claim(call.id, "b") is None


def test_unknown_call_cannot_be_claimed() -> None:
    assert records.claim(uuid4(), "worker") is None


# The writers that succeed in each situation.
SITUATIONS: dict[str, Callable[[], CallRecord]] = {
    "accepted": accepted,
    "released": lambda: _released(claimed()),
    "running": claimed,
    "expired": lambda: _expired(claimed()),
    "expired, last attempt": lambda: _expired(claimed(max_attempts=1)),
    "expired, cancelled": lambda: _cancelled(_expired(claimed())),
    "waiting for the client": lambda: _waiting(claimed()),
    "finished": lambda: _over(claimed()),
}
WRITERS: dict[str, Callable[[CallRecord], bool]] = {
    "claim": lambda call: records.claim(call.id, "other") is not None,
    "renew": lambda call: records.renew(call.id, call.attempt, None).held,
    "renew by an earlier attempt": lambda call: records.renew(call.id, call.attempt - 1, None).held,
    "look": lambda call: records.check_attempt(call.id, call.attempt).held,
    "finish": end,
    "finish by an earlier attempt": lambda call: end(call, call.attempt - 1),
    "finish as lost": lambda call: end(call, statement=statements.FINISH_LOST),
    "finish unstarted": lambda call: end(call, statement=statements.FINISH_UNSTARTED),
    "release": lambda call: records.release(call.id, call.attempt),
    "cancel": lambda call: records.request_cancel(call.session_id, call.request_id, "") is not None,
}
ALLOWED = {
    "accepted": {"claim", "finish unstarted", "cancel"},
    "released": {"claim", "finish unstarted", "cancel"},
    "running": {"renew", "look", "finish", "cancel"},
    "expired": {"renew", "look", "finish", "finish as lost", "release", "cancel"},
    "expired, last attempt": {"renew", "look", "finish", "finish as lost", "cancel"},
    "expired, cancelled": {"renew", "look", "finish", "finish as lost", "cancel"},
    "waiting for the client": {"renew", "look", "finish", "cancel"},
    "finished": set[str](),
}


def _expired(call: CallRecord) -> CallRecord:
    expire(call)
    return call


def _released(call: CallRecord) -> CallRecord:
    """R5: the call waits for its next attempt, and its frozen one may wake."""
    assert records.release(_expired(call).id, call.attempt)
    return call


def _cancelled(call: CallRecord) -> CallRecord:
    assert records.request_cancel(call.session_id, call.request_id, "enough")
    return call


def _waiting(call: CallRecord) -> CallRecord:
    records.record_waiting(call.id, call.attempt, waiting=True)
    assert state(call) == "input_required"
    return call


def _over(call: CallRecord) -> CallRecord:
    assert end(call)
    return call


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("situation", SITUATIONS)
def test_writer_succeeds_only_in_allowed_situations(situation: str, writer: str) -> None:
    call = SITUATIONS[situation]()
    assert WRITERS[writer](call) is (writer in ALLOWED[situation])


# The transitions of a call, each on a row where at most the state is wrong.
MOVES: dict[Transition, Callable[[CallRecord], object]] = {
    Transition.APPROVE: lambda call: pending_approvals.approve(call.id, by=None, reason=""),
    Transition.REFUSE: lambda call: pending_approvals.refuse(call.id, by=None, reason="", answer=ANSWER),
    Transition.START: lambda call: records.claim(call.id, "other"),
    Transition.ASK: lambda call: records.record_waiting(call.id, call.attempt, waiting=True),
    Transition.ANSWER: lambda call: records.record_waiting(call.id, call.attempt, waiting=False),
    Transition.RESUME: lambda call: task_records.answer(call.id, {"name": {"action": "accept"}}),
    Transition.RETRY: lambda call: records.release(call.id, call.attempt),
    Transition.COMPLETE: end,
    Transition.FAIL: lambda call: records.finish(call.id, call.attempt, State.FAILED, "error", ANSWER),
    Transition.CANCEL: lambda call: records.end_cancelled(call.id, ANSWER, "enough"),
}


@pytest.mark.requirement("CAN-01")
@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("transition", Transition)
def test_call_changes_state_only_as_transition_table_allows(transition: Transition, before: State) -> None:
    call = _expired(claimed())
    Call.objects.filter(pk=call.id).update(
        state=before,
        approval_until=timezone.now() + timedelta(hours=1),
        inputs='{"open": {"name": {"key": "name", "request": {}}}, "responses": {}, "used": ["name"]}',
    )
    MOVES[transition](call)
    assert state(call) == (transition.after if before in transition.before else before)


def test_first_outcome_is_kept() -> None:
    call = _over(claimed())
    assert not records.finish(call.id, 1, State.CANCELLED, "cancelled", b"{}")
    found = records.find(call.id)
    assert found is not None
    assert (found.state, found.answer, found.is_finished) == ("completed", ANSWER, True)


def test_released_call_restarts_and_lost_attempt_cannot_write() -> None:
    lost = _expired(claimed())
    assert records.release(lost.id, 1)
    second = records.claim(lost.id, "other")
    assert second is not None
    assert second.attempt == 2
    assert not records.renew(lost.id, 1, None).held
    assert not end(lost)
    assert not records.release(lost.id, 1)
    assert end(second)


def test_call_starts_at_most_max_attempts_times() -> None:
    call = accepted(max_attempts=2)
    for _ in range(2):
        taken = records.claim(call.id, "worker")
        assert taken is not None
        expire(taken)
        records.release(taken.id, taken.attempt)
    assert records.claim(call.id, "worker") is None
    assert Call.objects.get(pk=call.id).attempt == 2


def test_renewal_stores_progress_and_returns_cancel_reason() -> None:
    call = claimed()
    assert records.renew(call.id, 1, (3.0, 10.0, "three")) == records.Renewal(True)
    row = Call.objects.get(pk=call.id)
    assert (row.progress, row.total, row.message) == (3.0, 10.0, "three")
    _cancelled(call)
    assert records.renew(call.id, 1, None).cancel_reason == "enough"
    assert records.check_attempt(call.id, 1).cancel_reason == "enough"


def test_first_cancel_reason_is_kept() -> None:
    call = _cancelled(claimed())
    again = records.request_cancel_of(call.id, "another")
    assert again is not None
    assert again.cancel_reason == "enough"


def test_sweep_queries_return_only_matching_calls() -> None:
    claimed(request_id=1)
    lost = _expired(claimed(request_id=2))
    unqueued, queued = accepted(request_id=3), accepted(request_id=4)
    silent, told = _over(claimed(request_id=5)), _over(claimed(request_id=6))
    records.record_enqueued(unqueued.id, is_queued=False)
    records.record_published(told.id)
    assert {call.id for call in records.expired()} == {lost.id}
    assert {call.id for call in records.not_enqueued(-1)} == {unqueued.id}
    assert {call.id for call in records.waiting(-1)} == {queued.id}
    assert {call.id for call in records.unpublished(-1)} == {silent.id}
    assert [records.not_enqueued(60), records.waiting(60), records.unpublished(60)] == [[], [], []]


def test_open_calls_of_session_are_found() -> None:
    running, waiting = claimed(request_id=1), accepted(request_id=2)
    _over(claimed(request_id=3))
    accepted(session_id="another-session-of-tests")
    assert {call.id for call in records.open_calls(running.session_id)} == {running.id, waiting.id}


@pytest.mark.django_db(transaction=True)
def test_exactly_one_of_racing_writers_wins() -> None:
    for number in range(20):
        call = accepted(request_id=number)
        starts = at_once([partial(records.claim, call.id, "w")] * 4)
        assert sum(start is not None for start in starts) == 1
        assert sum(at_once([partial(end, call, 1)] * 3)) == 1


@pytest.mark.django_db(transaction=True)
def test_exactly_one_of_equal_requests_is_new() -> None:
    for number in range(20):
        results = at_once([partial(records.accept, new_call(request_id=number))] * 4)
        assert sum(is_new for _, is_new in results) == 1
        assert len({call.id for call, _ in results}) == 1


def test_purge_deletes_only_calls_finished_long_ago() -> None:
    running = claimed(request_id=1, stream="call-1")
    fresh = claimed(request_id=2, stream="call-2")
    old = claimed(request_id=3, stream="call-3")
    assert end(fresh)
    assert end(old)
    ago = timezone.now() - timedelta(days=8)
    Call.objects.filter(pk=old.id).update(accepted_at=ago, finished_at=ago)
    Call.objects.filter(pk=running.id).update(accepted_at=timezone.now() - timedelta(days=30))
    assert records.purge() == 1
    assert {row.pk for row in Call.objects.all()} == {running.id, fresh.id}
