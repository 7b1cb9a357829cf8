"""Keeps one attempt honest from a thread of its own.

It renews the lease, carries cancels in, and ends the process of code that will not stop.

It does not use the event loop, because code that blocks the loop is one of the things it watches for.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from django.db import DatabaseError, close_old_connections

from mcp_app.execution import records
from mcp_app.execution.call import Call
from mcp_app.execution.records import CallRecord, Renewal

TICK_SECONDS = 0.25
LOOK_SECONDS = 1.0
RENEW_SECONDS = 5.0
# A little longer than a stopped call is waited for, so that its answer is stored before its process ends.
GRACE_SECONDS = 5.4
EXIT_STATUS = 70

log = logging.getLogger("mcp.worker")


class Keeper:
    """Watches one attempt until ``release``.

    ``tell`` runs a function on the worker's event loop; ``may_exit`` says whether ending this process hits no
    other call (a prefork child runs one job at a time).
    """

    def __init__(
        self, record: CallRecord, call: Call, tell: Callable[[Callable[[], None]], None], *, may_exit: bool
    ) -> None:
        self._record = record
        self._call = call
        self._tell = tell
        self._may_exit = may_exit
        self._released = threading.Event()
        self._stopped_at: float | None = None
        self._renewed_at = self._looked_at = time.monotonic()
        self._told_to_stop = False
        self._deadline = time.monotonic() + call.timeout
        self._thread = threading.Thread(target=self._watch, name=f"keeper-{record.id}", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def release(self) -> None:
        """The attempt is over and nothing of it runs any more."""
        self._released.set()
        self._thread.join(timeout=2)

    def _watch(self) -> None:
        try:
            while not self._released.wait(TICK_SECONDS):
                self._check(time.monotonic())
        finally:
            close_old_connections()

    def _check(self, now: float) -> None:
        self._look(now)
        if self._call.outcome and not self._call.in_thread:
            return  # Only the answer is left to store, however long the database is away (R15).
        if self._call.stopped or self._told_to_stop or now > self._deadline:
            if self._stopped_at is None:
                self._stopped_at = now
            elif now - self._stopped_at > GRACE_SECONDS:
                self._end("did not stop")

    def _look(self, now: float) -> None:
        """Renew the lease when it is time; look for a cancel more often, for broadcasts may be lost (R25)."""
        record = self._record
        try:
            if now - self._renewed_at >= RENEW_SECONDS:
                renewal = records.renew(record.id, record.attempt, self._call.last_progress)
                self._renewed_at = self._looked_at = now
            elif now - self._looked_at >= LOOK_SECONDS:
                renewal = records.look(record.id, record.attempt)
                self._looked_at = now
            else:
                return
        except DatabaseError as error:
            log.warning("The lease of call %s could not be renewed: %s", record.id, error)
            close_old_connections()
            return
        self._act(renewal)

    def _act(self, renewal: Renewal) -> None:
        call = self._call
        if not renewal.held and not call.outcome:
            # Another attempt took over while this process was frozen: nothing it says counts any more (R5).
            log.warning("Attempt %d of call %s lost its lease", self._record.attempt, self._record.id)
            self._stop("the attempt lost its lease")
        elif renewal.cancel_reason and not call.stopped:
            self._stop(renewal.cancel_reason)

    def _stop(self, reason: str) -> None:
        if not self._told_to_stop:
            # Noted here, too: code that blocks the event loop keeps the call from hearing of it.
            self._told_to_stop = True
            self._tell(lambda: self._call.cancel(reason))

    def _end(self, why: str) -> None:
        """The last resort: this process ends itself, so no neighbour can be hit by mistake (R8, M12)."""
        if not self._may_exit:
            log.error("Call %s (%s) %s and goes on in its thread", self._record.id, self._record.tool, why)
            self._released.set()
            return
        log.error("Call %s (%s) %s: its process ends itself", self._record.id, self._record.tool, why)
        os._exit(EXIT_STATUS)
