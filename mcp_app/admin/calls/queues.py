"""The state of queues and workers, shown above the list of calls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from mcp_app import conf
from mcp_app.execution.stored.queue_stats import open_calls, queue_names
from mcp_app.protocol.call_state import State
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.job_queues import JobQueues
from mcp_app.streams.blocking.presence import LiveWorker, Presence

NO_REDIS = "Without Redis, background tools run in the web process."
AWAY = "Redis is unavailable, so queues and workers are not shown. Accepted calls wait and are not lost."


@dataclass(frozen=True, slots=True)
class Queue:
    """The state of a queue.

    ``jobs`` is the number of jobs that no worker has claimed, or None if it is unknown. ``unapproved``,
    ``waiting`` and ``running`` are numbers of calls. ``workers`` is the number of workers that serve the
    queue, or None if it is unknown.
    """

    name: str
    jobs: int | None
    unapproved: int
    waiting: int
    running: int
    workers: int | None

    @property
    def orphaned(self) -> bool:
        """True if calls wait in the queue and no worker serves it."""
        return self.workers == 0 and self.waiting > 0


@dataclass(frozen=True, slots=True)
class Box:
    """All queues that have calls or workers, all live workers, and a note about problems."""

    queues: list[Queue]
    workers: list[LiveWorker]
    note: str = ""


def box() -> Box:
    """Return the current state of queues and workers."""
    states = open_calls()
    names = queue_names(states)
    url = conf.get().redis_url
    depths: dict[str, int] = {}
    workers: list[LiveWorker] | None = None
    note = "" if url else NO_REDIS
    try:
        if url:
            jobs, presence = _redis(url)
            depths, workers = jobs.depths(names), presence.workers()
    except StreamsUnavailable:
        depths, workers, note = {}, None, AWAY
    queues = [
        Queue(
            name,
            depths.get(name),
            unapproved=states[name, State.APPROVAL_NEEDED],
            waiting=states[name, State.ACCEPTED],
            running=states[name, State.RUNNING] + states[name, State.INPUT_REQUIRED],
            workers=None if workers is None else sum(name in worker.queues for worker in workers),
        )
        for name in names
    ]
    return Box(queues, workers or [], note)


@lru_cache(maxsize=2)
def _redis(url: str) -> tuple[JobQueues, Presence]:
    return JobQueues(url), Presence(url)
