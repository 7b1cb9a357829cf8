"""Batched database writes that update many calls, given by id, in one statement."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from django.db import DatabaseError

from mcp_app.database.queries import aquery
from mcp_app.execution.stored import records, request_ids

# Well below the time after which the reaper publishes an answer again if its row is not marked as
# published.
PUBLISHED_SECONDS = 0.5
# Short, because a client may reuse its request id at once. Another process then has to wait for this write.
DELIVERED_SECONDS = 0.1

log = logging.getLogger("mcp.background")


class IdBatch:
    """A batch of call ids for the function ``write``. For one event loop only."""

    def __init__(self, write: Callable[..., None], seconds: float, lost: str) -> None:
        """Create a batch.

        It is written after ``seconds``, and ``lost`` is the log message if a write fails.
        """
        self._write, self._seconds, self._lost = write, seconds, lost
        self._ids: list[UUID] = []
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, call_id: UUID) -> None:
        """Include this call in the next write."""
        self._ids.append(call_id)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._begin)

    async def flush(self) -> None:
        """Write the pending ids now. Log failures."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ids, self._ids = self._ids, []
        if ids:
            try:
                await aquery(self._write, *ids)
            except DatabaseError as error:
                log.warning("%d %s: %s", len(ids), self._lost, error)

    def _begin(self) -> None:
        self._writing = asyncio.create_task(self.flush())


class Published(IdBatch):
    """The calls whose answers this worker process has appended to their streams.

    If the process dies before the write, the reaper publishes the answers again. No stream gets a second
    answer.
    """

    def __init__(self) -> None:
        super().__init__(
            records.record_published,
            PUBLISHED_SECONDS,
            "published answers could not be recorded, the reaper publishes them again",
        )


class Delivered(IdBatch):
    """The calls whose answers this web process has delivered completely (R7)."""

    def __init__(self) -> None:
        super().__init__(
            request_ids.release_requests,
            DELIVERED_SECONDS,
            "request ids of answered calls could not be freed",
        )
