"""Finds calls that something died on, and ends or restarts them; any process may do it.

Synchronous passes over the rows, each change a compare-and-set, so that two reapers at once do no harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db import DatabaseError, close_old_connections

from mcp_app.database.forking import undivided
from mcp_app.execution.background import approval, waiting_line
from mcp_app.execution.background.answer_streams import fence_off_now, publish_now
from mcp_app.execution.background.celery import BrokerUnavailable, hand_on, waiting
from mcp_app.execution.background.ended_notes import CANCELLED
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
# Lease renewers try again every half second while they cannot renew, and else do it every 5 seconds.
RENEWAL_SECONDS = 4.0
JUMP_SECONDS = 7.0

log = logging.getLogger("mcp.reaper")


def sweep(*, leases: bool = True) -> int:
    """One pass; returns how many calls it recovered. Without ``leases`` no worker is considered lost."""
    helped = sum(_reap(call) for call in records.expired()) if leases else 0
    for call in (*records.not_enqueued(BROKER_SECONDS), *_lost_by_broker()):
        helped += hand_on(call)
    helped += approval.sweep()
    waiting_line.sweep()
    helped += sum(_end_outlived(call) for call in task_records.outlived())
    if unpublished := records.unpublished(PUBLISH_SECONDS):
        helped += publish_now(unpublished)
    return helped


@dataclass(frozen=True, slots=True)
class Well:
    """What a sweep saw of a database that takes writes at once.

    ``judges_from`` and the other moments of this process are monotonic; ``said`` is the database's clock, and
    ``said_at`` when it said so.
    """

    judges_from: float
    said: datetime
    said_at: float
    swept_at: float


def run_forever(stop: threading.Event) -> None:
    """Sweep until ``stop`` is set; survives the loss of Redis and of the database."""
    well: Well | None = None
    while not stop.wait(SWEEP_SECONDS):
        try:
            with undivided():  # A worker's main process forks.
                well = turn(well)
        except Exception:
            log.exception("A sweep failed")  # Without this thread this process would not sweep any more.
            well = None


def turn(well: Well | None) -> Well | None:
    """One sweep; takes what the one before saw, and returns what this one did.

    While the database accepts no writes, no lease can be renewed, and every lease looks old after a sleep of
    the machine, or when the database's clock was set. Afterwards the living get a moment to renew theirs
    before anybody is taken for dead (R5, R15).
    """
    started = time.monotonic()
    try:
        said = records.probe()
        now = time.monotonic()
        if well is None or now - started > SLOW_SECONDS:
            judges_from = now + RENEWAL_SECONDS
        elif _time_jumped(well, started, said, now):
            judges_from = now + JUMP_SECONDS
        else:
            judges_from = well.judges_from
        sweep(leases=now >= judges_from)
    except DatabaseError as error:
        log.warning("The sweep waits: %s", error)
        return None
    finally:
        close_old_connections()
    return Well(judges_from, said, now, time.monotonic())


def _time_jumped(well: Well, started: float, said: datetime, now: float) -> bool:
    """Whether this process slept, or the database's clock did not go on as this process' monotonic one."""
    slept = started - well.swept_at > SWEEP_SECONDS + SLOW_SECONDS
    passed = (said - well.said).total_seconds()
    return slept or abs(passed - (now - well.said_at)) > SLOW_SECONDS


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
        publish_now([call], answer, ended_as=outcome)
    return int(ended)


def _end_outlived(call: CallRecord) -> int:
    """Stop expired tasks, whose results cannot be read any more; their workers check the row each second."""
    if records.request_cancel_of(call.id, "its time to live is over") is None:
        return 0
    answer = stored_answers.cancelled(call)
    if records.cancel_idle(call, answer):
        publish_now([call], answer, ended_as=CANCELLED)
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
