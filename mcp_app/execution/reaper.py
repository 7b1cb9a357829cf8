"""Finds calls that something died on, and ends or restarts them; any process may do it.

Synchronous passes over the rows, each change a compare-and-set, so that two reapers at once do no harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict

from django.db import DatabaseError, close_old_connections

from mcp_app.execution import approval, records, stored_answers, task_records
from mcp_app.execution.attempt_reply import fence_off_now, publish_now
from mcp_app.execution.call_record import CallRecord
from mcp_app.execution.celery import BrokerUnavailable, hand_on, waiting
from mcp_app.execution.statements import FINISH_LOST
from mcp_app.forking import undivided
from mcp_app.protocol import jsonrpc
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import InternalError

SWEEP_SECONDS = 5.0
BROKER_SECONDS = 10.0
PUBLISH_SECONDS = 2.0
SLOW_SECONDS = 1.0
# Keepers try again every half second while they cannot renew.
RENEWAL_SECONDS = 4.0

log = logging.getLogger("mcp.reaper")


def sweep(*, leases: bool = True) -> int:
    """One pass; returns how many calls were helped. Without ``leases`` nobody is taken for dead."""
    helped = sum(_reap(call) for call in records.expired()) if leases else 0
    for call in (*records.not_enqueued(BROKER_SECONDS), *_lost_by_broker()):
        helped += hand_on(call)
    helped += approval.sweep()
    helped += sum(_end_outlived(call) for call in task_records.outlived())
    if unpublished := records.unpublished(PUBLISH_SECONDS):
        helped += publish_now(unpublished)
    return helped


def run_forever(stop: threading.Event) -> None:
    """Sweep until ``stop`` is set; survives the loss of Redis and of the database."""
    well_since: float | None = None
    slept_at = time.time()
    while not stop.wait(SWEEP_SECONDS):
        if time.time() - slept_at > SWEEP_SECONDS + SLOW_SECONDS:
            # The machine slept, or its clock was set: every lease looks old, and its keeper just woke up.
            well_since = None
        try:
            with undivided():  # A worker's main process forks.
                well_since = turn(well_since)
        except Exception:
            log.exception("A sweep failed")  # Without this thread nobody would sweep here any more.
            well_since = None
        slept_at = time.time()


def turn(well_since: float | None) -> float | None:
    """One sweep; takes and returns since when (monotonic) the database has been seen to take writes at once.

    While it does not, nobody can renew a lease. Afterwards the living get a moment to do so before anybody is
    taken for dead (R15).
    """
    started = time.monotonic()
    try:
        records.probe()
        now = time.monotonic()
        if well_since is None or now - started > SLOW_SECONDS:
            well_since = now
        sweep(leases=now - well_since >= RENEWAL_SECONDS)
    except DatabaseError as error:
        log.warning("The sweep waits: %s", error)
        return None
    finally:
        close_old_connections()
    return well_since


def _lost_by_broker() -> list[CallRecord]:
    """Calls that wait for a worker in a queue that holds fewer jobs than calls: Redis was emptied (R12)."""
    queues: dict[str, list[CallRecord]] = defaultdict(list)
    for call in records.waiting(BROKER_SECONDS):
        queues[call.queue].append(call)
    lost: list[CallRecord] = []
    for queue, calls in queues.items():
        try:
            # Workers hold a job or two in reserve: only as many as are missing, or the queue would only grow.
            missing = len(calls) - waiting(queue)
            lost += sorted(calls, key=lambda call: call.accepted_at)[: max(0, missing)]
        except BrokerUnavailable as error:
            log.warning("Queue %s cannot be looked into: %s", queue, error)
    return lost


def _reap(call: CallRecord) -> int:
    """A lease ran out: start again if that is allowed, else end the call with an error (R4, R6)."""
    if records.release(call.id, call.attempt):
        log.warning("Attempt %d of call %s (%s) was lost: it starts again", call.attempt, call.id, call.tool)
        fence_off_now(call, call.attempt + 1)
        return int(hand_on(call))
    state, outcome, answer = _ending(call)
    ended = records.finish(call.id, call.attempt, state, outcome, answer, statement=FINISH_LOST)
    if ended:
        log.warning(
            "Attempt %d of call %s (%s) was lost: it ends as %s", call.attempt, call.id, call.tool, outcome
        )
        publish_now([call], answer)
    return int(ended)


def _end_outlived(call: CallRecord) -> int:
    """A task that nobody may ask for any more is work for nobody; its worker looks at the row each second."""
    if records.request_cancel_of(call.id, "its time to live is over") is None:
        return 0
    answer = stored_answers.cancelled(call)
    if records.cancel_idle(call, answer):
        publish_now([call], answer)
    log.warning("Task %s (%s) outlived its time and was stopped", call.id, call.tool)
    return 1


def _ending(call: CallRecord) -> tuple[State, str, bytes]:
    if call.cancel_reason:
        return State.CANCELLED, "cancelled", stored_answers.cancelled(call)
    words = (
        f"{call.tool} was interrupted: the process that ran it is gone. It may have done part of its work."
    )
    if call.is_task:
        # A task fails by an error of the protocol only (TASKX-07), and this one has no result.
        return State.FAILED, "error", jsonrpc.encode_error(InternalError(words), call.request_id)
    return State.FAILED, "tool_error", stored_answers.failed(call, words)
