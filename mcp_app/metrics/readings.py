"""The current values of all metric sources: the counts of processes, Redis, the queues, and the database."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from django.db import Error as DatabaseFault

from mcp_app.database.queries import thread_connection
from mcp_app.metrics.report import MetricsReporter
from mcp_app.streams.base import StreamsError, Totals
from mcp_app.streams.blocking.job_queues import JobQueues
from mcp_app.streams.blocking.presence import Presence
from mcp_app.streams.gateway import Streams

DATABASE_SECONDS = 2.0

# Metrics use a separate thread. If the database hangs, their query must not occupy a thread that looks up
# credentials.
_threads = ThreadPoolExecutor(1, thread_name_prefix="metrics")

# A function that counts unfinished background calls by queue and state, and lists all queues.
OpenCalls = Callable[[], tuple[Counter[tuple[str, str]], list[str]]]

log = logging.getLogger("mcp.metrics")


@dataclass(slots=True)
class Readings:
    """The values of all sources.

    ``calls`` is None if the database did not answer, all others if Redis did not.
    """

    calls: Counter[tuple[str, str]] | None = None
    queues: list[str] = field(default_factory=list)
    totals: Totals | None = None
    log_batches: int = 0
    memory: tuple[int, int] | None = None
    jobs: dict[str, int] | None = None
    workers: int | None = None


async def read(streams: Streams, metrics: MetricsReporter, redis_url: str, calls: OpenCalls) -> Readings:
    """Read all sources. A source that does not answer within seconds has the value None."""
    found = Readings()
    await asyncio.gather(_read_database(found, calls), _read_streams(found, streams, metrics))
    if redis_url and found.totals is not None:
        await _read_queues(found, redis_url)
    return found


async def _read_database(found: Readings, calls: OpenCalls) -> None:
    asking = asyncio.get_running_loop().run_in_executor(_threads, _counted, calls)
    try:
        found.calls, found.queues = await asyncio.wait_for(asking, DATABASE_SECONDS)
    except (DatabaseFault, TimeoutError) as error:
        log.warning("Open calls could not be counted: %r", error)


@thread_connection()
def _counted(calls: OpenCalls) -> tuple[Counter[tuple[str, str]], list[str]]:
    return calls()


async def _read_streams(found: Readings, streams: Streams, metrics: MetricsReporter) -> None:
    # Report the latest counts of this process first. The counts of other processes are at most a second
    # old.
    await metrics.report()
    try:
        found.log_batches = await streams.messages.depth()
        found.totals = await streams.metrics.read()
    except StreamsError as error:
        log.warning("Counters could not be read from Redis: %s", error)
    # Read the memory separately, because a hosted Redis may refuse only this command.
    with suppress(StreamsError):
        found.memory = await streams.metrics.memory()


async def _read_queues(found: Readings, redis_url: str) -> None:
    jobs, presence = _redis(redis_url)
    try:
        found.jobs = await asyncio.to_thread(jobs.depths, found.queues)
        found.workers = len(await asyncio.to_thread(presence.workers))
    except StreamsError as error:
        log.warning("%s", error)


@lru_cache(maxsize=2)
def _redis(url: str) -> tuple[JobQueues, Presence]:
    return JobQueues(url), Presence(url)
