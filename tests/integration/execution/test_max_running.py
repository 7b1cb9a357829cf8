"""Concurrency limits of tools, counted over all workers."""

from __future__ import annotations

from functools import partial
from uuid import UUID, uuid4

import pytest

from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import NewCall
from mcp_app.execution.stored.next_call import RunningLimits, TooManyRunning, take
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from tests.racing import at_once


def _accepted(tool: str = "count") -> UUID:
    new = NewCall(
        session_id=uuid4().hex,
        request_id=1,
        principal="loopback",
        user_id=None,
        api_key_id=None,
        tool=tool,
        lane="count" if tool == "count" else "",
        arguments={},
        meta={},
        session_fields={"version": "2025-11-25"},
        stream=f"call-{uuid4().hex}",
        timeout=900,
    )
    return records.accept(new)[0].id


ONE, TWO = RunningLimits({"count": 1}), RunningLimits({"count": 2})


def _running(tool: str = "count") -> int:
    return Call.objects.filter(tool=tool, state=State.RUNNING).count()


@pytest.mark.django_db
def test_call_over_the_limit_waits_and_reports_the_backlog() -> None:
    calls = [_accepted() for _ in range(4)]
    assert all(take(call, "w", TWO) for call in calls[:2])
    with pytest.raises(TooManyRunning) as full:
        take(calls[2], "w", TWO)
    assert (full.value.call.id, full.value.waiting) == (calls[2], 2)
    waiting = Call.objects.get(pk=calls[2])
    assert (waiting.state, waiting.attempt, waiting.lease_until) == (State.ACCEPTED, 0, None)


@pytest.mark.django_db
def test_slot_is_freed_when_a_call_finishes_but_not_when_it_elicits() -> None:
    first, second = _accepted(), _accepted()
    claimed = take(first, "w", ONE)
    assert claimed is not None
    records.record_waiting(first, 1, waiting=True)
    with pytest.raises(TooManyRunning):
        take(second, "w", ONE)
    assert records.finish(first, 1, State.COMPLETED, "ok", b"{}")
    assert take(second, "w", ONE) is not None


@pytest.mark.django_db
def test_limit_counts_only_its_own_tool() -> None:
    assert take(_accepted("add"), "w", ONE)
    assert take(_accepted("add"), "w", ONE)
    assert take(_accepted("count"), "w", ONE)
    assert (_running("add"), _running("count")) == (2, 1)


@pytest.mark.django_db
def test_second_job_of_a_running_or_finished_call_starts_nothing() -> None:
    call = _accepted()
    assert take(call, "w", ONE)
    assert take(call, "w", ONE) is None
    records.finish(call, 1, State.COMPLETED, "ok", b"{}")
    assert take(call, "w", ONE) is None


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_concurrent_workers_do_not_exceed_the_limit() -> None:
    calls = [_accepted() for _ in range(8)]
    claims = at_once([partial(take, call, "w", TWO) for call in calls])
    assert [type(claim) for claim in claims if isinstance(claim, Exception)] == [TooManyRunning] * 6
    assert _running() == 2
