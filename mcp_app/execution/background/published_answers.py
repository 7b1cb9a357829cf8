"""Notes which answers reached their event streams, many in one write."""

from __future__ import annotations

import asyncio
import logging
from uuid import UUID

from django.db import DatabaseError

from mcp_app.database import aquery
from mcp_app.execution.stored import records

# Well below the time after which the reaper publishes once more what it takes for unpublished.
NOTE_SECONDS = 0.5

log = logging.getLogger("mcp.worker")


class Published:
    """Of one worker process. The reaper publishes again what dies with it, which adds no second answer."""

    def __init__(self) -> None:
        self._ids: list[UUID] = []
        self._timer: asyncio.TimerHandle | None = None
        self._noting: asyncio.Task[None] | None = None

    def add(self, call_id: UUID) -> None:
        """The answer of this call is in its stream."""
        self._ids.append(call_id)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(NOTE_SECONDS, self._note)

    async def flush(self) -> None:
        """Note what is not noted yet, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ids, self._ids = self._ids, []
        if ids:
            try:
                await aquery(records.note_published, *ids)
            except DatabaseError as error:
                log.warning("%d published answers are left to the reaper: %s", len(ids), error)

    def _note(self) -> None:
        self._noting = asyncio.create_task(self.flush())
