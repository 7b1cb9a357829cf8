"""The reaper: expired leases, jobs lost by the broker, unpublished answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import orjson
import pytest
from django.db import OperationalError, connection
from django.test import override_settings
from django.utils import timezone

from mcp_app import conf
from mcp_app.database import clock as database_clock
from mcp_app.execution.background import reaper
from mcp_app.execution.background.celery import BrokerUnavailable, enqueue, waiting
from mcp_app.execution.background.reaper import SweepState
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.streams.gateway import Streams
from mcpsite.celery import app as celery
from tests.unit.execution.attempts import SESSION, STREAM, claimed, new_call
from tests.unit.execution.store import events_of

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

LONG_AGO = timedelta(seconds=30)
QUEUE = "reaper-tests"
WELL = SweepState(0.0, timezone.now(), 0.0, 0.0)


@pytest.fixture(autouse=True)
def _stores(clean_redis: str, settings: object) -> Iterator[None]:
    """Use real Redis for streams and an empty in-memory broker."""
    assert waiting(QUEUE) >= 0
    with celery.connection_for_write() as made:
        made.default_channel.queue_purge(QUEUE)
    with override_settings(MCP={**settings.MCP, "REDIS_URL": clean_redis}):  # type: ignore[attr-defined]
        conf.forget()
        yield
    conf.forget()


def lost(**changed: object) -> CallRecord:
    """Return a call whose attempt died 30 seconds ago."""
    call = claimed(queue=QUEUE, **changed)
    Call.objects.filter(pk=call.id).update(lease_until=timezone.now() - LONG_AGO)
    return call


def answers() -> list[dict[str, object]]:
    """Return the messages on the stream of the call."""

    async def read() -> list[dict[str, object]]:
        streams = Streams.connect(conf.get().redis_url)
        await streams.start()
        try:
            head = await streams.log.head(SESSION, STREAM)
            events = [] if head is None else await events_of(streams, SESSION, STREAM, head.epoch)
            return [orjson.loads(event.data) for event in events]
        finally:
            await streams.close()

    return asyncio.run(read())


def test_lost_repeatable_attempt_is_requeued() -> None:
    call = lost()
    assert reaper.sweep() == 1
    row = Call.objects.get(pk=call.id)
    assert (row.state, row.attempt, row.lease_until) == (State.ACCEPTED, 1, None)
    assert row.enqueued_at is not None
    assert waiting(QUEUE) == 1
    assert answers() == []


def test_lost_final_attempt_fails_its_call() -> None:
    call = lost(max_attempts=1)
    assert reaper.sweep() == 1
    row = Call.objects.get(pk=call.id)
    assert (row.state, row.outcome, row.published) == (State.FAILED, "tool_error", True)
    (answer,) = answers()
    assert answer["id"] == 1
    assert answer["result"]["isError"]  # type: ignore[index]
    assert "interrupted" in str(answer)
    assert waiting(QUEUE) == 0


def test_lost_attempt_of_cancelled_call_ends_as_cancelled() -> None:
    call = lost()
    records.request_cancel_of(call.id, "enough")
    reaper.sweep()
    assert Call.objects.get(pk=call.id).state == State.CANCELLED
    assert answers()[0]["error"]["code"] == -32800  # type: ignore[index]


def test_live_attempt_is_not_reaped() -> None:
    call = claimed(queue=QUEUE)
    assert reaper.sweep() == 0
    assert Call.objects.get(pk=call.id).state == State.RUNNING


@pytest.mark.parametrize("broker_was_away", [True, False])
def test_accepted_call_without_job_is_enqueued(broker_was_away: bool) -> None:
    call, _ = records.accept(new_call(queue=QUEUE))
    if broker_was_away:
        records.record_enqueued(call.id, is_queued=False)
    assert reaper.sweep() == 0
    then = timezone.now() - LONG_AGO
    Call.objects.filter(pk=call.id).update(accepted_at=then)
    # Without a record of the outage, the process died before it could reach the broker.
    Call.objects.filter(pk=call.id).exclude(enqueued_at=None).update(enqueued_at=then)
    assert reaper.sweep() == 1
    assert waiting(QUEUE) == 1
    assert reaper.sweep() == 0


def test_job_lost_by_broker_is_requeued_and_held_job_is_not() -> None:
    call, _ = records.accept(new_call(queue=QUEUE))
    enqueue(call)
    records.record_enqueued(call.id)
    Call.objects.filter(pk=call.id).update(enqueued_at=timezone.now() - LONG_AGO)
    assert reaper.sweep() == 0
    with celery.connection_for_write() as made:
        made.default_channel.queue_purge(QUEUE)
    assert reaper.sweep() == 1
    assert waiting(QUEUE) == 1


def test_long_waiting_call_is_requeued_with_growing_intervals() -> None:
    call, _ = records.accept(new_call(queue=QUEUE))
    accepted = timezone.now()
    jobs_at = []
    for second in range(0, 3_600, 10):
        then = {"accepted_at": accepted - timedelta(seconds=second)}
        since = second - (jobs_at[-1] if jobs_at else 0)
        Call.objects.filter(pk=call.id).update(enqueued_at=timezone.now() - timedelta(seconds=since), **then)
        if records.not_enqueued(reaper.BROKER_SECONDS):
            jobs_at.append(second)
    assert jobs_at[0] <= 80
    assert 3 <= len(jobs_at) <= 7


def test_broker_failure_during_count_raises_broker_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with celery.connection_for_write() as made:
        channel, kinds = type(made.default_channel), (*made.connection_errors, *made.channel_errors)

    def gone(*_: object, **__: object) -> None:
        raise kinds[0]("gone")

    monkeypatch.setattr(channel, "queue_declare", gone)
    with pytest.raises(BrokerUnavailable):
        waiting(QUEUE)


def test_sweep_loop_continues_after_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    def turn(well: SweepState | None) -> SweepState:
        turns.append(well)
        if len(turns) == 1:
            raise RuntimeError("odd")
        stop.set()
        return WELL

    stop = threading.Event()
    monkeypatch.setattr(reaper, "run_sweep", turn)
    monkeypatch.setattr(reaper, "SWEEP_SECONDS", 0.01)
    reaper.run_forever(stop)
    assert turns == [None, None]


# The state seen by the previous sweep, with and without a jump of time since then.
SEEN: dict[str, Callable[[SweepState], SweepState]] = {
    "normal": lambda well: well,
    "process slept": lambda well: replace(well, swept_at=well.swept_at - 60.0),
    "database clock set forward": lambda well: replace(
        well, database_time=well.database_time - timedelta(hours=1)
    ),
    "database clock set back": lambda well: replace(
        well, database_time=well.database_time + timedelta(hours=1)
    ),
}


@pytest.mark.parametrize("what", SEEN)
def test_time_jump_delays_reaping_until_leases_can_renew(what: str) -> None:
    call = lost()
    well = reaper.run_sweep(None)
    assert well is not None
    seen = SEEN[what](replace(well, checks_leases_from=0.0))
    assert reaper.run_sweep(seen) is not None
    jumped = what != "normal"
    assert Call.objects.get(pk=call.id).state == (State.RUNNING if jumped else State.ACCEPTED)


def test_lease_from_before_clock_was_set_back_expires_immediately() -> None:
    call = claimed(queue=QUEUE)
    Call.objects.filter(pk=call.id).update(lease_until=database_clock.lease(3_600))
    assert reaper.sweep() == 1
    assert Call.objects.get(pk=call.id).state == State.ACCEPTED


def test_stored_answer_is_published_once_across_sweeps() -> None:
    call = claimed(queue=QUEUE)
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    records.finish(call.id, 1, State.COMPLETED, "ok", answer)
    Call.objects.filter(pk=call.id).update(finished_at=timezone.now() - LONG_AGO)
    assert reaper.sweep() == 1
    assert reaper.sweep() == 0
    assert answers() == [orjson.loads(answer)]


def test_first_sweep_reaps_nothing_until_renewal_interval_passed() -> None:
    call = lost()
    well = reaper.run_sweep(None)
    assert well is not None
    assert Call.objects.get(pk=call.id).state == State.RUNNING
    assert (
        reaper.run_sweep(replace(well, checks_leases_from=well.checks_leases_from - reaper.RENEWAL_SECONDS))
        is not None
    )
    assert Call.objects.get(pk=call.id).state == State.ACCEPTED


def test_sweep_without_database_resets_grace_period() -> None:
    def away(*_: object) -> None:
        raise OperationalError("away")

    with connection.execute_wrapper(away):
        assert reaper.run_sweep(WELL) is None
