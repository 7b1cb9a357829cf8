"""Rows are judged by the database clock only, never by the clock of a process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from mcp_app.auth.principal import LOOPBACK
from mcp_app.conf import Settings
from mcp_app.database import clock as database_clock
from mcp_app.execution.background import approval
from mcp_app.execution.questions import request_state
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import client_tasks, pending_approvals, records, statements, task_records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.protocol.messages.server import ENDPOINT
from tests.bounds import SLACK
from tests.unit.execution.attempts import claimed, new_call

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

DAY = 86_400.0
BOUND = "the request"


@pytest.fixture(params=[-3_600, -30, 30, 3_600], ids="{:+}s".format)
def _clock_is_off(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock of this process ahead or back."""
    off, true_time, true_now = request.param, time.time, timezone.now
    monkeypatch.setattr(time, "time", lambda: true_time() + off)
    monkeypatch.setattr(timezone, "now", lambda: true_now() + timedelta(seconds=off))


def accepted(**changed: Any) -> CallRecord:
    return records.accept(new_call(**changed))[0]


def waiting() -> CallRecord:
    return accepted(approval_minutes=10)


def over() -> CallRecord:
    call = claimed()
    assert records.finish(call.id, 1, State.COMPLETED, "ok", b"{}")
    return call


def ages(call: CallRecord, **seconds: float) -> CallRecord:
    """Move times of a call into the past by so many seconds of the database clock."""
    moments = {
        name: database_clock.lease(-age) if name == "lease_until" else database_clock.now(-age)
        for name, age in seconds.items()
    }
    Call.objects.filter(pk=call.id).update(**moments)
    return call


def ended_as_lost(call: CallRecord) -> bool:
    return records.finish(
        call.id, call.attempt, State.FAILED, "tool_error", b"{}", statement=statements.FINISH_LOST
    )


def reminds(call: CallRecord) -> bool:
    return bool(list(pending_approvals.to_remind(approval.REMIND_SECONDS)))


def told_of_task(call: CallRecord) -> bool:
    return client_tasks.find(str(call.id), LOOPBACK.key, ENDPOINT, core=True) is not None


def renewed() -> CallRecord:
    call = ages(claimed(), lease_until=9)
    assert records.renew(call.id, call.attempt, None).held
    return call


def approved(call: CallRecord) -> bool:
    return pending_approvals.approve(call.id, by=None, reason="") is not None


# Each question with a call that answers no and a call that answers yes.
Asked = tuple[Callable[[CallRecord], bool], Callable[[], CallRecord], Callable[[], CallRecord]]
QUESTIONS: dict[str, Asked] = {
    "lease has expired": (lambda _: bool(records.expired()), claimed, lambda: ages(claimed(), lease_until=2)),
    "renewed lease has expired": (
        lambda _: bool(records.expired()), renewed, lambda: ages(renewed(), lease_until=2)
    ),
    "may be released": (
        lambda call: records.release(call.id, 1), claimed, lambda: ages(claimed(), lease_until=2)
    ),
    "may be ended as lost": (ended_as_lost, claimed, lambda: ages(claimed(), lease_until=2)),
    "job is lost": (
        lambda _: bool(records.not_enqueued(10)),
        accepted,
        lambda: ages(accepted(), accepted_at=80, enqueued_at=75),
    ),
    "waits long": (lambda _: bool(records.waiting(10)), accepted, lambda: ages(accepted(), enqueued_at=12)),
    "is unpublished": (lambda _: bool(records.unpublished(2)), over, lambda: ages(over(), finished_at=4)),
    "is purged": (
        lambda _: bool(records.purge()),
        lambda: ages(over(), accepted_at=8 * DAY, finished_at=6.99 * DAY),
        lambda: ages(over(), accepted_at=8 * DAY, finished_at=7.01 * DAY),
    ),
    "approval is overdue": (
        lambda _: bool(pending_approvals.overdue()), waiting, lambda: ages(waiting(), approval_until=2)
    ),
    "may be approved": (approved, lambda: ages(waiting(), approval_until=2), waiting),
    "is reminded": (reminds, waiting, lambda: ages(waiting(), reminded_at=17)),
    "task has expired": (
        lambda _: bool(task_records.outlived()),
        lambda: accepted(task_seconds=20.0),
        lambda: ages(accepted(task_seconds=20.0), task_until=2),
    ),
    "task is found": (
        told_of_task,
        lambda: ages(accepted(task_seconds=20.0), task_until=2),
        lambda: accepted(task_seconds=20.0),
    ),
    "task is listed": (
        lambda _: bool(client_tasks.page(LOOPBACK.key, ENDPOINT, None, 5)),
        lambda: ages(accepted(task_seconds=20.0), task_until=2),
        lambda: accepted(task_seconds=20.0),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("_clock_is_off")
@pytest.mark.parametrize("expected", [False, True])
@pytest.mark.parametrize("question", QUESTIONS)
def test_rows_are_judged_by_database_clock(question: str, expected: bool) -> None:
    ask, *calls = QUESTIONS[question]
    assert ask(calls[expected]()) is expected


@pytest.mark.usefixtures("_clock_is_off")
def test_waiting_time_in_messages_uses_database_clock() -> None:
    call = waiting()
    assert pending_approvals.waiting_words(call) == "Waiting for approval (10 min left)"
    ages(call, approval_until=-200, accepted_at=400, reminded_at=400)
    (told,) = pending_approvals.to_remind(approval.REMIND_SECONDS)
    assert pending_approvals.waiting_words(told) == "Waiting for approval (3 min left)"
    assert told.read_at is not None
    assert 395 < (told.read_at - told.accepted_at).total_seconds() < 460


def test_database_times_are_stored_in_django_format() -> None:
    """SQLite compares them as text."""
    call = accepted()
    at = call.accepted_at
    assert Call.objects.filter(accepted_at=at).exists()
    assert not Call.objects.filter(accepted_at__lt=at).exists()
    assert not Call.objects.filter(accepted_at__gt=at).exists()
    Call.objects.filter(pk=call.id).update(accepted_at=database_clock.now())
    row = Call.objects.get(pk=call.id)
    assert Call.objects.filter(accepted_at=row.accepted_at).exists()
    with connection.cursor() as cursor:
        cursor.execute("SELECT CAST(accepted_at AS TEXT) FROM mcp_app_call")
        (stored,) = cursor.fetchone()
    if connection.vendor == "sqlite":
        assert stored == str(row.accepted_at.replace(tzinfo=None))


@pytest.fixture
def _nothing_noted() -> Iterator[None]:
    yield
    database_clock._ahead = 0.0


@pytest.mark.usefixtures("_clock_is_off", "_nothing_noted")
def test_inter_process_timestamps_use_database_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = database_clock.read().timestamp()
    assert abs(database_clock.timestamp() - said) < 20.0
    # An expiry from the database is compared with the process clock where no query is made.
    assert abs(database_clock.own(said) - time.time()) < 20.0
    monkeypatch.undo()
    database_clock.read()
    assert database_clock.timestamp() == pytest.approx(time.time(), abs=0.1)


@pytest.mark.usefixtures("_clock_is_off", "_nothing_noted")
def test_request_state_of_another_machine_expires_on_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(redis_url="redis://nowhere.invalid")
    database_clock.read()
    token = request_state.sealed(Inputs(bound=BOUND), "ada", settings)
    monkeypatch.undo()
    database_clock.read()
    opened = request_state._opened(token, settings)
    request_state._check(opened, "ada", BOUND)
    assert abs(opened["until"] - time.time() - settings.state_seconds) < 20.0


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's clock is its server's")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("off", [30, -30, 3_600, -3_600])
def test_sqlite_process_with_skewed_clock_reaps_no_live_call(off: int) -> None:
    def elsewhere(_form: str, _moment: str, later: str) -> str:
        seconds = off + float(later.split(maxsplit=1)[0])
        return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S.%f")

    call = claimed()
    connection.close()  # Statements prepared before would keep SQLite's built-in function.
    connection.ensure_connection()
    connection.connection.create_function("strftime", 3, elsewhere)
    try:
        assert abs((database_clock.read() - datetime.now(UTC)).total_seconds() - off) < SLACK
        assert not records.expired()
        assert not records.release(call.id, 1)
        assert not ended_as_lost(call)
        assert records.renew(call.id, 1, None).held
    finally:
        # SQLite does not restore a built-in function that was overridden.
        connection.close()
        database_clock.read()  # Otherwise this process would consider its clock off in later tests.
    assert not records.expired()
