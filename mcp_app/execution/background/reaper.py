"""Recovery of calls whose worker or job was lost: they are restarted or ended.

Any process may run the reaper. It scans the rows synchronously and makes each change by compare-and-set, so
several reapers may run at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, close_old_connections

from mcp_app.catalogue.sources.upstream import left
from mcp_app.database.forking import undivided
from mcp_app.execution.background import approval, waiting_line
from mcp_app.execution.background.answer_streams import fence_off_now, publish_now
from mcp_app.execution.background.celery import BrokerUnavailable, enqueue_again, waiting
from mcp_app.execution.background.ended_log import CANCELLED
from mcp_app.execution.stored import records, stored_answers, task_records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.statements import FINISH_LOST
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import InternalError
from mcp_app.protocol.messages import jsonrpc

SWEEP_SECONDS = 5.0
BROKER_SECONDS = 10.0
PUBLISH_SECONDS = 2.0
SLOW_SECONDS = 1.0
# Workers renew a lease every 5 seconds, and every half second after a failure.
RENEWAL_SECONDS = 4.0
JUMP_SECONDS = 7.0

log = logging.getLogger("mcp.reaper")


def sweep(*, leases: bool = True) -> int:
    """Run one pass and return how many calls were recovered. Without ``leases``, no worker counts as lost."""
    ended: list[str] = []
    helped = sum(_reap(call, ended) for call in records.expired()) if leases else 0
    for call in (*records.not_enqueued(BROKER_SECONDS), *_lost_by_broker()):
        helped += enqueue_again(call)
    helped += approval.sweep()
    waiting_line.sweep()
    helped += sum(_end_outlived(call, ended) for call in task_records.outlived())
    if unpublished := records.unpublished(PUBLISH_SECONDS):
        helped += publish_now(unpublished)
    if ended:
        left.cancel_now(ended)
    return helped


@dataclass(frozen=True, slots=True)
class SweepState:
    """The state of a responsive database at one sweep.

    ``database_time`` is the time by the database's clock, read when this process's monotonic clock was at
    ``read_at``. ``checks_leases_from`` and ``swept_at`` are times of the monotonic clock, too. Leases are
    checked only from ``checks_leases_from`` on.
    """

    checks_leases_from: float
    database_time: datetime
    read_at: float
    swept_at: float


def run_forever(stop: threading.Event) -> None:
    """Sweep until ``stop`` is set, even while Redis or the database is down."""
    state: SweepState | None = None
    while not stop.wait(SWEEP_SECONDS):
        try:
            with undivided():  # The main process of a worker forks.
                state = run_sweep(state)
        except Exception:
            log.exception("A sweep failed")  # Otherwise the process would no longer sweep.
            state = None


def run_sweep(previous: SweepState | None) -> SweepState | None:
    """Run one sweep and return the new state for the next one, or None after an outage.

    ``previous`` is the state that the previous sweep returned. Leases cannot be renewed while the database
    accepts no writes, and after the machine slept or the database's clock was set, all leases look expired.
    In these cases workers get some seconds to renew before any worker counts as lost (R5, R15).
    """
    started = time.monotonic()
    try:
        database_time = records.probe()
        now = time.monotonic()
        if previous is None or now - started > SLOW_SECONDS:
            checks_leases_from = now + RENEWAL_SECONDS
        elif _time_jumped(previous, started, database_time, now):
            checks_leases_from = now + JUMP_SECONDS
        else:
            checks_leases_from = previous.checks_leases_from
        sweep(leases=now >= checks_leases_from)
    except DatabaseError as error:
        log.warning("The sweep is postponed: %s", error)
        return None
    finally:
        close_old_connections()
    return SweepState(checks_leases_from, database_time, now, time.monotonic())


def _time_jumped(previous: SweepState, started: float, database_time: datetime, now: float) -> bool:
    """Return True if this process slept, or if the database's clock and the monotonic clock diverged."""
    slept = started - previous.swept_at > SWEEP_SECONDS + SLOW_SECONDS
    passed = (database_time - previous.database_time).total_seconds()
    return slept or abs(passed - (now - previous.read_at)) > SLOW_SECONDS


def _lost_by_broker() -> list[CallRecord]:
    """Return calls whose jobs were lost because Redis was emptied (R12).

    Their queues have fewer jobs than waiting calls.
    """
    queues: dict[str, list[CallRecord]] = defaultdict(list)
    for call in records.waiting(BROKER_SECONDS):
        queues[call.queue].append(call)
    lost: list[CallRecord] = []
    for queue, calls in queues.items():
        try:
            # Workers prefetch a job or two, so some jobs are not in the queue. Queue only the missing
            # number of jobs, or the queue would grow with every sweep.
            missing = len(calls) - waiting(queue)
            lost += sorted(calls, key=lambda call: call.accepted_at)[: max(0, missing)]
        except BrokerUnavailable as error:
            log.warning("Queue %s could not be read: %s", queue, error)
    return lost


def _reap(call: CallRecord, ended: list[str]) -> int:
    """Restart a call whose lease expired. If that is not allowed, end it with an error (R4, R6).

    Add the id of a call that ended to ``ended``.
    """
    if records.release(call.id, call.attempt):
        log.warning(
            "Attempt %d of call %s (%s) was lost. The call is retried.", call.attempt, call.id, call.tool
        )
        fence_off_now(call, call.attempt + 1)
        return int(enqueue_again(call))
    state, outcome, answer = _ending(call)
    is_ended = records.finish(call.id, call.attempt, state, outcome, answer, statement=FINISH_LOST)
    if is_ended:
        ended.append(str(call.id))
        log.warning(
            "Attempt %d of call %s (%s) was lost. The call ends as %s.",
            call.attempt,
            call.id,
            call.tool,
            outcome,
        )
        publish_now([call], answer, ended_as=outcome)
    return int(is_ended)


def _end_outlived(call: CallRecord, ended: list[str]) -> int:
    """Stop a task whose result can no longer be read. A worker that runs it checks the row every second."""
    if records.request_cancel_of(call.id, "its time to live is over") is None:
        return 0
    answer = stored_answers.cancelled(call)
    if records.cancel_idle(call, answer):
        publish_now([call], answer, ended_as=CANCELLED)
        ended.append(str(call.id))
    log.warning("Task %s (%s) exceeded its lifetime and was stopped", call.id, call.tool)
    return 1


def _ending(call: CallRecord) -> tuple[State, str, bytes]:
    if call.cancel_reason:
        return State.CANCELLED, "cancelled", stored_answers.cancelled(call)
    words = (
        f"{call.tool} was interrupted: the process that ran it is gone. It may have done part of its work."
    )
    if call.is_task:
        # Tasks fail only by a protocol error (TASKX-07), and a lost call has no result.
        return State.FAILED, "error", jsonrpc.encode_error(InternalError(words), call.request_id)
    return State.FAILED, "tool_error", stored_answers.failed(call, words)
