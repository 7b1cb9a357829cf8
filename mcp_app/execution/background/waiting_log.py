"""Message log entries for requests whose calls wait for approval or for a worker.

The worker logs the request when it starts a call. Without these entries, the log would not show waiting
calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from uuid import UUID

from django.db import Error as DatabaseFault

from mcp_app.database.queries import aquery
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.models import Call
from mcp_app.protocol.call_state import UNSTARTED

# Most calls start within this time. One query then finds all calls that did not.
WAIT_SECONDS = 2.0
# Maximum number of calls, and of request bytes, held until then. The limits keep a caller from filling the
# memory of the process. Requests beyond these limits are logged only by the worker.
MOST = 1_000
MOST_BYTES = 8 * 1024 * 1024

log = logging.getLogger("mcp.background")


class WaitingLog:
    """The recently accepted calls of one web process. For the event loop only."""

    def __init__(self) -> None:
        self._young: dict[UUID, tuple[Callable[[], None], int]] = {}
        self._bytes = 0
        self._looking: asyncio.Task[None] | None = None

    def accepted(self, call: CallRecord, size: int, note: Callable[[], None]) -> None:
        """Log the request of an accepted call with ``note`` if the call has to wait.

        ``size`` is the request's length in bytes. The request of a call that needs approval is logged at
        once.
        """
        if call.waits_for_approval:
            note()
        elif call.is_finished or call.attempt > 0 or call.id in self._young:
            return  # It repeats an earlier request.
        elif len(self._young) < MOST and self._bytes + size <= MOST_BYTES:
            self._young[call.id] = note, size
            self._bytes += size
            if self._looking is None:
                self._looking = asyncio.create_task(self._log_periodically())

    async def log_unstarted(self, call_ids: Collection[UUID]) -> None:
        """Log the given calls that have not started yet. Workers log calls that have started."""
        for call_id in await aquery(_unstarted, call_ids):
            self._young[call_id][0]()
        for call_id in call_ids:
            self._bytes -= self._young.pop(call_id)[1]

    async def _log_periodically(self) -> None:
        try:
            while self._young:
                # When a call is logged here, it has waited for at most two pauses.
                due = list(self._young)
                await asyncio.sleep(WAIT_SECONDS)
                await self.log_unstarted(due)
        except DatabaseFault as error:
            log.warning("Waiting calls were not written to the message log: %s", error)
            self._young.clear()
            self._bytes = 0
        finally:
            self._looking = None


def _unstarted(call_ids: Collection[UUID]) -> list[UUID]:
    """Return the ids of the given calls that have not started."""
    waiting = Call.objects.filter(pk__in=call_ids, state__in=UNSTARTED, attempt=0)
    return list(waiting.values_list("pk", flat=True))
