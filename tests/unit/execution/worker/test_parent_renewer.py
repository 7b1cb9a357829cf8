"""The main process of a worker renews for a child whose code holds the interpreter lock, and for no other."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_app.database import clock
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker.attempt_slots import AttemptSlots
from mcp_app.execution.worker.descendants import can_run
from mcp_app.execution.worker.parent_renewer import (
    GRACE_SECONDS,
    POLL_SECONDS,
    SILENT_SECONDS,
    STORE_SECONDS,
    ParentRenewer,
)
from mcp_app.models import Call as Row
from mcp_app.protocol.call_state import State
from tests.unit.execution.attempts import claimed

TIMEOUT = 60.0
FORK = multiprocessing.get_context("fork")


def _run(slots: AttemptSlots, record: CallRecord, keeps_lock: bool, is_settled: bool, ready: Any) -> None:
    """Act as the child that runs an attempt."""
    slot = slots.of_child(0)
    slot.begin(record, time.monotonic() + TIMEOUT, lambda: is_settled)
    while True:
        running = slots.running(0, os.getpid())
        if running is not None and running.is_settled is is_settled:
            break
    ready.set()
    # The pause lets other threads run, unlike C code that holds the lock.
    ctypes.PyDLL(None).sleep(600) if keeps_lock else signal.pause()


class Child:
    """A child with one attempt, and its main process, which looks on request."""

    def __init__(self, *, keeps_lock: bool = True, is_settled: bool = False) -> None:
        self.record, slots, ready = claimed(), AttemptSlots(), FORK.Event()
        Row.objects.filter(pk=self.record.id).update(lease_until=clock.lease(1))
        arguments = (slots, self.record, keeps_lock, is_settled, ready)
        self.process = FORK.Process(target=_run, args=arguments, daemon=True)
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid
        assert ready.wait(30)
        self.parent = ParentRenewer(slots, lambda: {0: self.pid})
        self.now = time.monotonic()

    def look(self, after: float) -> None:
        """Let the main process look so many seconds from now."""
        self.parent.turn(self.now + after)

    def look_until_ended(self, after: float = SILENT_SECONDS * 2) -> None:
        """Let the main process look as often as it takes to end an unresponsive attempt."""
        for seconds in (0, POLL_SECONDS, GRACE_SECONDS + POLL_SECONDS):
            self.look(after + seconds)

    @property
    def row(self) -> Row:
        return Row.objects.get(pk=self.record.id)

    @property
    def is_renewed(self) -> bool:
        return Row.objects.filter(pk=self.record.id, lease_until__gt=clock.lease(5)).exists()

    def ends(self) -> bool:
        self.process.join(10)
        return not self.process.is_alive()


@pytest.fixture
def start(transactional_db: None) -> Iterator[Callable[..., Child]]:
    children: list[Child] = []

    def started(**options: bool) -> Child:
        children.append(Child(**options))
        return children[-1]

    yield started
    for child in children:
        child.process.kill()
        child.process.join()


def test_lease_of_child_holding_interpreter_lock_is_renewed(start: Callable[..., Child]) -> None:
    child = start()
    child.look_until_ended()
    assert child.is_renewed
    assert child.process.is_alive()
    assert child.row.state == State.RUNNING


def test_cancelled_call_ends_with_its_child(start: Callable[..., Child]) -> None:
    child = start()
    records.request_cancel_of(child.record.id, "enough")
    child.look(SILENT_SECONDS * 2)
    child.look(SILENT_SECONDS * 2 + GRACE_SECONDS - POLL_SECONDS)
    assert child.row.state == State.RUNNING  # Its code may still end without help.
    child.look_until_ended(SILENT_SECONDS * 2 + GRACE_SECONDS)
    assert child.ends()
    assert (child.row.state, child.row.outcome) == (State.CANCELLED, "cancelled")
    assert "-32800" in child.row.answer


def test_call_beyond_timeout_ends_with_its_child(start: Callable[..., Child]) -> None:
    child = start()
    child.look_until_ended(TIMEOUT + POLL_SECONDS)
    assert child.ends()
    assert (child.row.state, child.row.outcome) == (State.COMPLETED, "tool_error")
    assert "work timed out after 60 seconds" in child.row.answer


def test_superseded_attempt_ends_with_its_child_and_changes_nothing(
    start: Callable[..., Child],
) -> None:
    child = start()
    Row.objects.filter(pk=child.record.id).update(attempt=2)
    child.look_until_ended()
    assert child.ends()
    assert child.row.state == State.RUNNING


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({"keeps_lock": False}, 0.0),
        ({"is_settled": True}, SILENT_SECONDS * 2),
    ],
    ids=["own renewer can run", "only answer left to store"],
)
def test_child_needing_no_help_is_not_ended(
    options: dict[str, bool], after: float, start: Callable[..., Child]
) -> None:
    child = start(**options)
    records.request_cancel_of(child.record.id, "enough")
    if options.get("keeps_lock", True):
        child.look_until_ended(after)
    else:
        child.look(after)
    assert child.process.is_alive()
    assert child.row.state == State.RUNNING


def test_lease_of_stopped_child_expires(start: Callable[..., Child]) -> None:
    child = start()
    os.kill(child.pid, signal.SIGSTOP)
    while can_run(child.pid):
        os.sched_yield()
    child.look_until_ended()
    assert not child.is_renewed


def test_lease_renewal_by_parent_is_bounded(start: Callable[..., Child]) -> None:
    child = start(is_settled=True)
    child.look(TIMEOUT + GRACE_SECONDS + STORE_SECONDS + POLL_SECONDS)
    assert not child.is_renewed


@pytest.mark.django_db
def test_late_condemned_child_keeps_its_next_call() -> None:
    slots, (first, second) = AttemptSlots(), (claimed(), claimed(request_id=2, stream="call-2"))
    slot = slots.of_child(0)
    slot.begin(first, time.monotonic(), bool)
    running = slots.running(0, os.getpid())
    assert running is not None
    assert (running.call_id, running.attempt) == (first.id, 1)
    assert not slot.end()
    assert slots.running(0, os.getpid()) is None
    slot.begin(second, time.monotonic(), bool)
    assert not slots.condemn(0, running)
    assert not slot.end()


@pytest.mark.django_db
def test_condemned_child_takes_no_further_call() -> None:
    slots, record = AttemptSlots(), claimed()
    slot = slots.of_child(0)
    slot.begin(record, time.monotonic(), bool)
    running = slots.running(0, os.getpid())
    assert running is not None
    assert slots.condemn(0, running)
    assert slot.end()
    # A replacement child has another process id.
    assert slots.running(0, os.getpid() + 1) is None


def test_log_lines_about_killed_child_are_suppressed_once() -> None:
    parent = ParentRenewer(AttemptSlots(), dict)
    child = "Process 'ForkPoolWorker-2' pid:{} exited with 'signal 9 (SIGKILL)'"
    job = (
        "Task handler raised error: WorkerLostError('Worker exited prematurely: signal 9 (SIGKILL) Job: 3.')"
    )
    assert not parent.has_logged(child.format(12))
    assert not parent.has_logged(job)
    parent._killed.add(12)
    assert not parent.has_logged(child.format(123))
    assert [parent.has_logged(line) for line in (child.format(12), job)] == [True, True]
    assert [parent.has_logged(line) for line in (child.format(12), job)] == [False, False]
