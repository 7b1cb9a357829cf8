"""One job starts several short calls in order, and leaves as many jobs as waiting calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from celery import Celery
from django.db import close_old_connections

from mcp_app import conf
from mcp_app.execution.background.broker import OTHERS
from mcp_app.execution.background.celery import TASK, remove_jobs, waiting
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker import worker
from mcp_app.execution.worker.worker import Worker
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from tests.integration.execution.broker import application_with, queued


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the time of a turn, because the test machine may be slow."""
    monkeypatch.setattr(worker, "TURN_SECONDS", 600.0)


@pytest.fixture
def working(clean_redis: str) -> Iterator[Worker]:
    """Return a worker child in this process."""
    made = Worker(replace(conf.get(), redis_url=clean_redis), may_exit=False)
    yield made
    made.close()
    close_old_connections()


def states(calls: list[CallRecord]) -> list[str]:
    return [Call.objects.get(pk=call.id).state for call in calls]


def taken_by_celery(app: Celery) -> UUID:
    """Return the call id of the next job, as a worker's main process takes it."""
    with app.connection_for_read() as connection, connection.channel() as channel:
        message = channel.basic_get("celery", no_ack=True)
        return UUID(message.payload[0][0])


@pytest.mark.django_db(transaction=True)
def test_job_runs_waiting_short_calls_and_removes_their_jobs(
    broker: Celery, working: Worker, patient: None
) -> None:
    calls = [queued() for _ in range(5)]
    assert working.run(taken_by_celery(broker)) == "tool_error"
    assert states(calls) == [State.COMPLETED] * 5
    assert waiting("celery") == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("transport", [""])
def test_jobs_that_the_broker_cannot_remove_start_nothing(
    broker: Celery, working: Worker, patient: None
) -> None:
    calls = [queued() for _ in range(3)]
    assert working.run(taken_by_celery(broker)) == "tool_error"
    assert states(calls) == [State.COMPLETED] * 3
    assert waiting("celery") == 2
    assert [working.run(taken_by_celery(broker)) for _ in range(2)] == ["", ""]


@pytest.mark.django_db(transaction=True)
def test_job_of_a_long_call_runs_no_other_call(
    broker: Celery, working: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "TURN_SECONDS", 0.0)
    calls = [queued() for _ in range(2)]
    working.run(taken_by_celery(broker))
    assert states(calls) == [State.COMPLETED, State.ACCEPTED]
    assert waiting("celery") == 1


@pytest.mark.django_db(transaction=True)
def test_calls_of_another_queue_and_their_jobs_are_left(
    broker: Celery, working: Worker, patient: None
) -> None:
    calls = [queued(), queued(queue="slow")]
    working.run(taken_by_celery(broker))
    assert states(calls) == [State.COMPLETED, State.ACCEPTED]
    assert (waiting("celery"), waiting("slow")) == (0, 1)


@pytest.mark.django_db
def test_jobs_of_other_tasks_and_priorities_are_kept(broker: Celery) -> None:
    first, second = queued(), queued()
    # A job of another task with the same text in its arguments.
    broker.send_task("shop.tasks.restock", args=[f'"task": "{TASK}"'], queue="celery", priority=9)
    third, high = queued(), queued(priority=9)
    remove_jobs([first, second, third])
    assert waiting("celery") == 2
    remove_jobs([high])
    with broker.connection_for_read() as connection, connection.channel() as channel:
        assert channel.basic_get("celery", no_ack=True).headers["task"] == "shop.tasks.restock"
    assert waiting("celery") == 0


@pytest.mark.django_db
def test_only_job_of_a_newer_call_is_kept(broker: Celery) -> None:
    """Another child took the job of the call that started without it, and found nothing to start."""
    began = queued()
    assert taken_by_celery(broker) == began.id
    queued()
    remove_jobs([began])
    assert waiting("celery") == 1


@pytest.mark.django_db
def test_job_behind_many_others_is_not_searched(broker: Celery) -> None:
    for _ in range(OTHERS + 1):
        queued()
    last = queued()
    remove_jobs([last])
    assert waiting("celery") == OTHERS + 2


@pytest.mark.django_db
def test_jobs_are_found_under_the_global_key_prefix(broker: Celery) -> None:
    broker.conf.broker_transport_options = {"global_keyprefix": "shop-"}
    remove_jobs([queued(), queued()][:1])
    assert waiting("celery") == 1


@pytest.mark.django_db
def test_unavailable_broker_does_not_delay_removing_jobs() -> None:
    with application_with("redis://127.0.0.1:1/0"):
        call = queued()
        remove_jobs([call])
        assert states([call]) == [State.ACCEPTED]
