"""At most so many calls of one tool run at once, counted over all workers."""

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
        timeout=300,
    )
    return records.accept(new)[0].id


ONE, TWO = RunningLimits({"count": 1}), RunningLimits({"count": 2})


def _running(tool: str = "count") -> int:
    return Call.objects.filter(tool=tool, state=State.RUNNING).count()


@pytest.mark.django_db
def test_a_call_beyond_the_limit_waits_and_says_how_many_do() -> None:
    calls = [_accepted() for _ in range(4)]
    assert all(take(call, "w", TWO) for call in calls[:2])
    with pytest.raises(TooManyRunning) as full:
        take(calls[2], "w", TWO)
    assert (full.value.call.id, full.value.waiting) == (calls[2], 2)
    waiting = Call.objects.get(pk=calls[2])
    assert (waiting.state, waiting.attempt, waiting.lease_until) == (State.ACCEPTED, 0, None)


@pytest.mark.django_db
def test_a_place_is_free_again_when_a_call_ends_and_a_call_that_asks_keeps_its_place() -> None:
    first, second = _accepted(), _accepted()
    claimed = take(first, "w", ONE)
    assert claimed is not None
    records.note_waiting(first, 1, waiting=True)
    with pytest.raises(TooManyRunning):
        take(second, "w", ONE)
    assert records.finish(first, 1, State.COMPLETED, "ok", b"{}")
    assert take(second, "w", ONE) is not None


@pytest.mark.django_db
def test_other_tools_are_not_counted_and_not_held_back() -> None:
    assert take(_accepted("add"), "w", ONE)
    assert take(_accepted("add"), "w", ONE)
    assert take(_accepted("count"), "w", ONE)
    assert (_running("add"), _running("count")) == (2, 1)


@pytest.mark.django_db
def test_a_second_job_of_a_call_that_runs_or_is_over_finds_nothing_to_do() -> None:
    call = _accepted()
    assert take(call, "w", ONE)
    assert take(call, "w", ONE) is None
    records.finish(call, 1, State.COMPLETED, "ok", b"{}")
    assert take(call, "w", ONE) is None


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_workers_that_claim_in_the_same_instant_do_not_share_a_place() -> None:
    calls = [_accepted() for _ in range(8)]
    claims = at_once([partial(take, call, "w", TWO) for call in calls])
    assert [type(claim) for claim in claims if isinstance(claim, Exception)] == [TooManyRunning] * 6
    assert _running() == 2
