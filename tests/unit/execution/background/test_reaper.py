"""Sweeping after the dead: expired leases, jobs the broker lost, answers nobody published."""

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
from mcp_app.execution.background.reaper import Well
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
WELL = Well(0.0, timezone.now(), 0.0, 0.0)


@pytest.fixture(autouse=True)
def _stores(clean_redis: str, settings: object) -> Iterator[None]:
    """Real Redis for the streams, the broker in this process's memory, emptied."""
    assert waiting(QUEUE) >= 0
    with celery.connection_for_write() as made:
        made.default_channel.queue_purge(QUEUE)
    with override_settings(MCP={**settings.MCP, "REDIS_URL": clean_redis}):  # type: ignore[attr-defined]
        conf.forget()
        yield
    conf.forget()


def lost(**changed: object) -> CallRecord:
    """A call whose attempt died half a minute ago."""
    call = claimed(queue=QUEUE, **changed)
    Call.objects.filter(pk=call.id).update(lease_until=timezone.now() - LONG_AGO)
    return call


def answers() -> list[dict[str, object]]:
    """What the stream of the call holds."""

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


def test_a_lost_attempt_that_may_be_repeated_is_queued_again() -> None:
    call = lost()
    assert reaper.sweep() == 1
    row = Call.objects.get(pk=call.id)
    assert (row.state, row.attempt, row.lease_until) == (State.ACCEPTED, 1, None)
    assert row.enqueued_at is not None
    assert waiting(QUEUE) == 1
    assert answers() == []


def test_a_lost_attempt_that_was_the_last_ends_its_call_with_an_error() -> None:
    call = lost(max_attempts=1)
    assert reaper.sweep() == 1
    row = Call.objects.get(pk=call.id)
    assert (row.state, row.outcome, row.published) == (State.FAILED, "tool_error", True)
    (answer,) = answers()
    assert answer["id"] == 1
    assert answer["result"]["isError"]  # type: ignore[index]
    assert "interrupted" in str(answer)
    assert waiting(QUEUE) == 0


def test_a_lost_attempt_of_a_cancelled_call_ends_it_as_cancelled() -> None:
    call = lost()
    records.request_cancel_of(call.id, "enough")
    reaper.sweep()
    assert Call.objects.get(pk=call.id).state == State.CANCELLED
    assert answers()[0]["error"]["code"] == -32800  # type: ignore[index]


def test_a_living_attempt_is_left_alone() -> None:
    call = claimed(queue=QUEUE)
    assert reaper.sweep() == 0
    assert Call.objects.get(pk=call.id).state == State.RUNNING


@pytest.mark.parametrize("broker_was_away", [True, False])
def test_an_accepted_call_without_a_job_gets_one(broker_was_away: bool) -> None:
    call, _ = records.accept(new_call(queue=QUEUE))
    if broker_was_away:
        records.note_enqueued(call.id, is_queued=False)
    assert reaper.sweep() == 0
    then = timezone.now() - LONG_AGO
    Call.objects.filter(pk=call.id).update(accepted_at=then)
    # Without a note that the broker was away, the process died before it could ask the broker.
    Call.objects.filter(pk=call.id).exclude(enqueued_at=None).update(enqueued_at=then)
    assert reaper.sweep() == 1
    assert waiting(QUEUE) == 1
    assert reaper.sweep() == 0


def test_a_job_that_the_broker_lost_is_queued_again_but_one_it_still_holds_is_not() -> None:
    call, _ = records.accept(new_call(queue=QUEUE))
    enqueue(call)
    records.note_enqueued(call.id)
    Call.objects.filter(pk=call.id).update(enqueued_at=timezone.now() - LONG_AGO)
    assert reaper.sweep() == 0
    with celery.connection_for_write() as made:
        made.default_channel.queue_purge(QUEUE)
    assert reaper.sweep() == 1
    assert waiting(QUEUE) == 1


def test_calls_that_wait_long_get_another_job_more_and_more_seldom() -> None:
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


def test_a_broker_that_goes_away_in_the_middle_is_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with celery.connection_for_write() as made:
        channel, kinds = type(made.default_channel), (*made.connection_errors, *made.channel_errors)

    def gone(*_: object, **__: object) -> None:
        raise kinds[0]("gone")

    monkeypatch.setattr(channel, "queue_declare", gone)
    with pytest.raises(BrokerUnavailable):
        waiting(QUEUE)


def test_a_sweep_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    def turn(well: Well | None) -> Well:
        turns.append(well)
        if len(turns) == 1:
            raise RuntimeError("odd")
        stop.set()
        return WELL

    stop = threading.Event()
    monkeypatch.setattr(reaper, "turn", turn)
    monkeypatch.setattr(reaper, "SWEEP_SECONDS", 0.01)
    reaper.run_forever(stop)
    assert turns == [None, None]


# What the sweep before saw, when time went on as it should since then, and when it did not.
SEEN: dict[str, Callable[[Well], Well]] = {
    "all went well": lambda well: well,
    "this process slept": lambda well: replace(well, swept_at=well.swept_at - 60.0),
    "the database's clock was set forward": lambda well: replace(well, said=well.said - timedelta(hours=1)),
    "the database's clock was set back": lambda well: replace(well, said=well.said + timedelta(hours=1)),
}


@pytest.mark.parametrize("what", SEEN)
def test_after_a_jump_of_time_the_living_get_a_moment_to_renew(what: str) -> None:
    call = lost()
    well = reaper.turn(None)
    assert well is not None
    seen = SEEN[what](replace(well, judges_from=0.0))
    assert reaper.turn(seen) is not None
    jumped = what != "all went well"
    assert Call.objects.get(pk=call.id).state == (State.RUNNING if jumped else State.ACCEPTED)


def test_a_lease_from_before_the_clock_of_the_database_was_set_back_is_out_at_once() -> None:
    call = claimed(queue=QUEUE)
    Call.objects.filter(pk=call.id).update(lease_until=database_clock.lease(3_600))
    assert reaper.sweep() == 1
    assert Call.objects.get(pk=call.id).state == State.ACCEPTED


def test_a_stored_answer_is_published_once_however_often_is_swept() -> None:
    call = claimed(queue=QUEUE)
    answer = b'{"jsonrpc":"2.0","id":1,"result":{}}'
    records.finish(call.id, 1, State.COMPLETED, "ok", answer)
    Call.objects.filter(pk=call.id).update(finished_at=timezone.now() - LONG_AGO)
    assert reaper.sweep() == 1
    assert reaper.sweep() == 0
    assert answers() == [orjson.loads(answer)]


def test_nobody_is_taken_for_dead_by_the_first_sweep_nor_right_after_an_outage() -> None:
    call = lost()
    well = reaper.turn(None)
    assert well is not None
    assert Call.objects.get(pk=call.id).state == State.RUNNING
    assert reaper.turn(replace(well, judges_from=well.judges_from - reaper.RENEWAL_SECONDS)) is not None
    assert Call.objects.get(pk=call.id).state == State.ACCEPTED


def test_a_sweep_without_a_database_starts_the_wait_anew() -> None:
    def away(*_: object) -> None:
        raise OperationalError("away")

    with connection.execute_wrapper(away):
        assert reaper.turn(WELL) is None
