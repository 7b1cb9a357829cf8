"""Supervision of a worker's children by its main process, for code that holds the interpreter lock.

The child of such code is alive, but it cannot renew its lease, notice a cancellation or exit. The main
process does this for the child, within the time limits of the child's own lease renewer. The reaper handles
children that are stopped or dead. On systems without /proc (other than Linux), the attempt counts as lost.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.db import DatabaseError, close_old_connections

from mcp_app.database.forking import undivided
from mcp_app.execution.background.answer_streams import publish_now
from mcp_app.execution.stored import records, stored_answers
from mcp_app.execution.stored.records import Renewal
from mcp_app.execution.worker.attempt_slots import AttemptSlots, RunningAttempt
from mcp_app.execution.worker.descendants import can_run, end_tree
from mcp_app.protocol.call_state import State

TICK_SECONDS = 0.25
POLL_SECONDS = 0.5
# The main process acts if no thread of a child had the lock, or renewed the lease, for this long.
SILENT_SECONDS = 1.0
LATE_SECONDS = 7.0
# The time for which a stopped call waits for its code before it is answered anyway.
GRACE_SECONDS = 5.0
# The time for which a child tries to store an answer. After it, the lease is not renewed any more.
STORE_SECONDS = 60.0

# Log lines about a killed child: one by Celery's pool with the child's pid, and one about the child's job.
_CHILD_KILLED = re.compile(r"pid:(\d+) exited with 'signal 9\b").search
_JOB_LOST = re.compile(r"WorkerLostError\(.*signal 9\b").search

log = logging.getLogger("mcp.worker")


@dataclass(slots=True)
class _Watch:
    """The state of an attempt for which the main process has acted."""

    looked_at: float = float("-inf")
    stopped_at: float | None = None


class ParentRenewer:
    """The supervisor of one worker's children. ``children`` returns their pids by slot."""

    def __init__(self, slots: AttemptSlots, children: Callable[[], Mapping[int, int]]) -> None:
        self._slots, self._children = slots, children
        self._watched: dict[int, _Watch] = {}
        self._killed: set[int] = set()
        self._lost_jobs = 0

    def run_forever(self) -> None:
        """Watch the children until the process ends, even while Redis or the database is down."""
        while True:
            time.sleep(TICK_SECONDS)
            try:
                self.turn(time.monotonic())
            except Exception:
                log.exception("The child processes of this worker could not be checked")

    def has_logged(self, words: str) -> bool:
        """Return True for a log line that Celery writes about a child killed by this object."""
        if (child := _CHILD_KILLED(words)) and int(child[1]) in self._killed:
            self._killed.discard(int(child[1]))
            self._lost_jobs += 1
            return True
        if self._lost_jobs and _JOB_LOST(words):
            self._lost_jobs -= 1
            return True
        return False

    def turn(self, now: float) -> None:
        """Act for each child that cannot act for itself at this moment."""
        watched: dict[int, _Watch] = {}
        for index, pid in self._children().items():
            running = self._slots.running(index, pid)
            if running is None:
                continue
            watch = watched[running.generation] = self._watched.get(running.generation) or _Watch()
            is_due = now - watch.looked_at >= POLL_SECONDS
            if is_due and _is_silent(running, now) and can_run(pid):
                watch.looked_at = now
                with undivided():  # The main process may fork.
                    self._act(index, running, watch, now)
        self._watched = watched

    def _act(self, index: int, running: RunningAttempt, watch: _Watch, now: float) -> None:
        try:
            if now < running.ends_at + GRACE_SECONDS + STORE_SECONDS:
                renewal = records.renew(running.call_id, running.attempt, None)
            else:
                renewal = records.check_attempt(running.call_id, running.attempt)
            stops = not renewal.held or renewal.cancel_reason or now > running.ends_at
            if running.is_settled or not stops:
                return
            if watch.stopped_at is None:
                watch.stopped_at = now
            elif now - watch.stopped_at >= GRACE_SECONDS:
                self._end(index, running, renewal)
        except DatabaseError as error:
            log.warning("The lease of call %s could not be renewed: %s", running.call_id, error)
        finally:
            close_old_connections()

    def _end(self, index: int, running: RunningAttempt, renewal: Renewal) -> None:
        """Store the outcome, unless the child has already stored one. Then kill the child."""
        if not renewal.held:
            self._kill(index, running, logging.ERROR, "lost its lease")
            return
        record = records.find(running.call_id)
        if record is None:
            return
        if record.cancel_reason:
            state, outcome, answer = State.CANCELLED, "cancelled", stored_answers.cancelled(record)
            level, why = logging.INFO, "was cancelled"
        else:
            state, outcome, answer = State.COMPLETED, "tool_error", stored_answers.timed_out(record)
            level, why = logging.ERROR, "timed out"
        if records.finish(record.id, running.attempt, state, outcome, answer):
            self._kill(index, running, level, why)
            publish_now([record], answer, ended_as=outcome)

    def _kill(self, index: int, running: RunningAttempt, level: int, why: str) -> None:
        if not self._slots.condemn(index, running):
            return
        words = "Call %s %s. Its process is ended because its code holds the interpreter lock."
        log.log(level, words, running.call_id, why)
        self._killed.add(running.pid)
        end_tree(running.pid)


def _is_silent(running: RunningAttempt, now: float) -> bool:
    return now - running.beat > SILENT_SECONDS or now - running.renewed > LATE_SECONDS
