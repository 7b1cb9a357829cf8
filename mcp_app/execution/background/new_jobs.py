"""Queueing of newly accepted calls through the web process's own connection to Redis."""

from __future__ import annotations

import asyncio
import logging

from mcp_app.database.queries import later
from mcp_app.execution.background import celery
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

log = logging.getLogger("mcp.background")


class NewJobs:
    """The queueing of jobs by one web process. If its Redis is not the broker, Celery queues the jobs."""

    def __init__(self, streams: Streams, redis_url: str) -> None:
        self._streams = streams
        self._redis_url = redis_url
        self._pushing: set[asyncio.Task[None]] = set()

    def enqueue(self, loop: asyncio.AbstractEventLoop, call: CallRecord) -> None:
        """Queue the job of a call that was just stored. Thread-safe.

        A separate task pushes the job, because the task that waits for the call may be cancelled as soon as
        the call is stored.
        """
        job = celery.worded(call, self._redis_url)
        if job is None:
            celery.enqueue_new(call)
        else:
            loop.call_soon_threadsafe(self._begin, call, *job)

    def _begin(self, call: CallRecord, key: str, message: str) -> None:
        pushing = asyncio.ensure_future(self._push(call, key, message))
        self._pushing.add(pushing)
        pushing.add_done_callback(self._pushing.discard)

    async def _push(self, call: CallRecord, key: str, message: str) -> None:
        try:
            await self._streams.push(key, message)
        except StreamsError as error:
            log.warning("Call %s waits for the broker: %s", call.id, error)
            later(records.record_enqueued, call.id, is_queued=False)
