"""Detection of jobs that Celery's main process lost when a child died.

Independent of Celery. A job is lost on its way to the child, or if the child's start message is read after
its death was handled. Such a job is neither run nor acknowledged and occupies a prefetch place forever. Once
there are as many as children, the worker takes no more jobs but looks healthy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Protocol, TypeVar

# A worker starts each job at once, because it prefetches no more jobs than it has children.
LOST_SECONDS = 15.0


class Job(Protocol):
    """A job that a worker took from the broker."""

    @property
    def id(self) -> str: ...

    @property
    def worker_pid(self) -> int | None:
        """The pid of the child that reported the start."""
        ...


J = TypeVar("J", bound=Job)


class LostJobs:
    """The lost jobs of one worker's main process, checked every few seconds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def among(self, taken: Iterable[J], begun: Iterable[J]) -> list[J]:
        """Return the jobs that no living child has started for too long. A slow job may still run later."""
        now = time.monotonic()
        waiting = {job.id: job for job in taken}
        for job in begun:
            if _lives(job.worker_pid):
                waiting.pop(job.id, None)
        self._since = {name: self._since.get(name, now) for name in waiting}
        return [waiting[name] for name, since in self._since.items() if now - since > LOST_SECONDS]


def _lives(pid: int | None) -> bool:
    """Return True if a child of this process is alive. Without a pid, trust its start message."""
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
