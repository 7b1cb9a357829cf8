"""Has the message log show requests whose calls wait, for approval or for a worker, long before their answer.

What is noted of a call elsewhere is noted by its worker, which it does not have yet.
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

# Most calls begin sooner. Those that do not are found by one query for all of them.
WAIT_SECONDS = 2.0
# So many calls at most are kept until then, of requests of so many bytes together: a caller must not fill the
# memory of the process. The others are noted by their workers only.
MOST = 1_000
MOST_BYTES = 8 * 1024 * 1024

log = logging.getLogger("mcp.background")


class WaitingNotes:
    """Of one web process, to be used on its event loop."""

    def __init__(self) -> None:
        self._young: dict[UUID, tuple[Callable[[], None], int]] = {}
        self._bytes = 0
        self._looking: asyncio.Task[None] | None = None

    def accepted(self, call: CallRecord, size: int, note: Callable[[], None]) -> None:
        """A call was accepted, by a request of ``size`` bytes, which ``note`` keeps until it is dropped.

        It is noted when it waits, which is certain of a call that needs approval.
        """
        if call.waits_for_approval:
            note()
        elif call.is_over or call.attempt > 0 or call.id in self._young:
            return  # Of a request that was repeated.
        elif len(self._young) < MOST and self._bytes + size <= MOST_BYTES:
            self._young[call.id] = note, size
            self._bytes += size
            if self._looking is None:
                self._looking = asyncio.create_task(self._look_again())

    async def look(self, call_ids: Collection[UUID]) -> None:
        """Note those of some accepted calls that still wait; the others are left to their workers."""
        for call_id in await aquery(_unstarted, call_ids):
            self._young[call_id][0]()
        for call_id in call_ids:
            self._bytes -= self._young.pop(call_id)[1]

    async def _look_again(self) -> None:
        try:
            while self._young:
                # Each has waited for two pauses at most when it is noted.
                due = list(self._young)
                await asyncio.sleep(WAIT_SECONDS)
                await self.look(due)
        except DatabaseFault as error:
            log.warning("The message log does not show which calls wait: %s", error)
            self._young.clear()
            self._bytes = 0
        finally:
            self._looking = None


def _unstarted(call_ids: Collection[UUID]) -> list[UUID]:
    """Those of some calls that have not begun."""
    waiting = Call.objects.filter(pk__in=call_ids, state__in=UNSTARTED, attempt=0)
    return list(waiting.values_list("pk", flat=True))
