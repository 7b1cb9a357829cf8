"""Supervision of one attempt by the thread that waits for it.

The thread renews the lease, delivers cancellations, and ends the process if code does not stop. It does not
depend on the event loop, which code may block. It cannot run while code holds the interpreter lock. In that
case the worker's main process acts in its place (``parent_renewer``).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from django.db import DatabaseError, close_old_connections

from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.stored.records import Renewal
from mcp_app.execution.worker.attempt_slots import AttemptSlot
from mcp_app.execution.worker.descendants import Leftovers, descendants, end_descendants
from mcp_app.execution.worker.waiting_children import WaitingSlot
from mcp_app.observability.correlation import Correlation, correlated

TICK_SECONDS = 0.25
POLL_SECONDS = 1.0
RENEW_SECONDS = 5.0
# A little longer than a stopped call waits for its code, so that the answer is stored before the process
# ends.
GRACE_SECONDS = 5.4
EXIT_STATUS = 70

T = TypeVar("T")
_leftovers = Leftovers()

log = logging.getLogger("mcp.worker")


class LeaseRenewer:
    """The supervisor of one attempt.

    ``call`` is watched once the attempt has created it. ``tell`` runs a function on the worker's event
    loop. ``may_exit`` is True if ending this process affects no other call, because a prefork child runs
    one job at a time. ``claimed_at`` (monotonic) is the start of the lease.

    ``slot`` shows the attempt to the worker's main process as long as its code runs. ``place`` knows if the
    call waits for its client, which is recorded in its row. It also knows if the call must give up its
    place to another person's call. ``on_news`` runs on the event loop when progress of a task has been
    stored, at most once a second (CEL-08).
    """

    def __init__(
        self,
        record: CallRecord,
        tell: Callable[[Callable[[], None]], None],
        *,
        may_exit: bool,
        claimed_at: float | None = None,
        on_news: Callable[[], None] | None = None,
        place: WaitingSlot | None = None,
        slot: AttemptSlot | None = None,
    ) -> None:
        self.call: RunningCall | None = None
        self._on_news = on_news
        self._noted: object = None
        self._place, self._recorded_waiting = place, False
        self.record = record
        self._tell = tell
        self._may_exit = may_exit
        # Only a process that runs one attempt at a time knows that its descendants belong to this attempt.
        self._started_before = descendants() if may_exit else {}
        self._stopped_at: float | None = None
        self._looked_at = time.monotonic()
        self._renewed_at = self._looked_at if claimed_at is None else claimed_at
        self._stop_requested = self._gave_up = self._lost = False
        self._deadline = time.monotonic() + record.timeout
        self._slot = slot
        if slot is not None:
            slot.begin(record, self._deadline, self._is_settled)

    def watch(self, attempt: Future[T]) -> T:
        """Wait until no code of the attempt runs any more. Return its result or raise its exception.

        This blocks.
        """
        with correlated(Correlation(call=str(self.record.id))):
            try:
                while not attempt.done():
                    with suppress(TimeoutError):
                        return attempt.result(TICK_SECONDS)
                    if self.call is not None and not self._gave_up:
                        self._check(self.call, time.monotonic())
                return attempt.result()
            finally:
                if self._may_exit:
                    self._end_programs()
                close_old_connections()
                if self._slot is not None and self._slot.end():
                    self._exit()

    def _end_programs(self) -> None:
        """Kill the programs that a stopped call has started (R32).

        Programs of a call that has finished may continue to run.
        """
        if self.call is not None and self.call.stopped and not self.call.suspended:
            self._log_ended(end_descendants(self._started_before))
        _leftovers.collect()

    def _log_ended(self, ended: list[int]) -> None:
        if ended:
            record = self.record
            log.info(
                "Call %s (%s) was stopped. %d of its programs were ended.", record.id, record.tool, len(ended)
            )

    def _check(self, call: RunningCall, now: float) -> None:
        if self._place is not None and self._place.must_leave:
            self._place.on_leave()
        self._poll(call, now)
        if self._is_settled():
            return  # However long a database outage lasts (R15).
        if call.stopped or self._stop_requested or now > self._deadline:
            if self._stopped_at is None:
                self._stopped_at = now
            elif now - self._stopped_at > GRACE_SECONDS:
                self._end("did not stop")

    def _is_settled(self) -> bool:
        """Return True if only the answer remains to be stored. Thread-safe."""
        return self.call is not None and self.call.outcome != "" and not self.call.goes_on

    def _poll(self, call: RunningCall, now: float) -> None:
        """Renew the lease when due.

        Look for a cancellation more often, because a broadcast may be lost (R25).
        """
        record = self.record
        try:
            self._record_waiting()
            if now - self._renewed_at >= RENEW_SECONDS or self._has_new_progress(call, now):
                renewal = self._renew(call)
                self._renewed_at = self._looked_at = now
            elif now - self._looked_at >= POLL_SECONDS:
                renewal = records.check_attempt(record.id, record.attempt)
                self._looked_at = now
            else:
                return
        except DatabaseError as error:
            log.warning("The lease of call %s could not be renewed: %s", record.id, error)
            close_old_connections()
            return
        self._act(call, renewal)

    def _record_waiting(self) -> None:
        waits = self._place is not None and self._place.waits
        if waits != self._recorded_waiting:
            records.record_waiting(self.record.id, self.record.attempt, waiting=waits)
            self._recorded_waiting = waits

    def _has_new_progress(self, call: RunningCall, now: float) -> bool:
        """Return True if the task has new progress and it is time to notify the client."""
        is_new = self._on_news is not None and call.last_progress is not self._noted
        return is_new and now - self._looked_at >= POLL_SECONDS

    def _renew(self, call: RunningCall) -> Renewal:
        record, progress = self.record, call.last_progress
        is_news = self._on_news is not None and progress is not self._noted
        renewal = records.renew(record.id, record.attempt, progress, is_news=is_news)
        if self._slot is not None:
            self._slot.renewed()
        if is_news and self._on_news is not None:
            self._noted = progress
            self._tell(self._on_news)
        return renewal

    def _act(self, call: RunningCall, renewal: Renewal) -> None:
        if not renewal.held and not call.outcome:
            # Another attempt took over while this process was frozen, so messages of this attempt no longer
            # count (R5).
            log.warning("Attempt %d of call %s lost its lease", self.record.attempt, self.record.id)
            self._lost = True
            self._stop(call, "the attempt lost its lease")
        elif renewal.cancel_reason and not call.stopped:
            self._stop(call, renewal.cancel_reason)

    def _stop(self, call: RunningCall, reason: str) -> None:
        if not self._stop_requested:
            # Recorded here as well, because code that blocks the event loop prevents the call from being
            # stopped.
            self._stop_requested = True
            self._tell(lambda: call.cancel(reason))

    def _end(self, why: str) -> None:
        """End this process as a last resort. This cannot hit another process by mistake (R8, M12)."""
        if not self._may_exit:
            log.error("Call %s (%s) %s and continues in its thread", self.record.id, self.record.tool, why)
            self._gave_up = True
            return
        was_requested = self._stop_requested or (self.call is not None and self.call.stopped_by == "cancel")
        if was_requested and not self._lost:
            words = "was cancelled. Its process is ended because its code did not stop."
            log.info("Call %s (%s) %s", self.record.id, self.record.tool, words)
        else:
            log.error("Call %s (%s) %s. Its process exits.", self.record.id, self.record.tool, why)
        self._exit()

    def _exit(self) -> None:
        # Kill them before this process exits, because they would lose their parent.
        self._log_ended(end_descendants({}))
        os._exit(EXIT_STATUS)
