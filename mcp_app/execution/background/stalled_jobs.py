"""Detection of jobs that Celery's main process lost when one of its children died.

This module does not use Celery. A job is lost if the child dies before it receives the job. It is also lost
if the main process reads the child's start message only after it has handled the child's death. Such a job
is neither run nor acknowledged, and it counts against the prefetch limit forever. Once there are as many
lost jobs as children, the worker takes no more jobs, although it looks healthy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Protocol, TypeVar

# A worker starts each job at once, because it prefetches only as many jobs as it has children.
LOST_SECONDS = 15.0


class Job(Protocol):
    """A job that a worker has taken from the broker."""

    @property
    def id(self) -> str: ...

    @property
    def worker_pid(self) -> int | None:
        """The pid of the child that reported the start."""
        ...


J = TypeVar("J", bound=Job)


class LostJobs:
    """The lost jobs of one worker, as seen by its main process. They are checked every few seconds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def among(self, taken: Iterable[J], begun: Iterable[J]) -> list[J]:
        """Return the jobs that no living child has started for too long. A slow job may still start later."""
        now = time.monotonic()
        waiting = {job.id: job for job in taken}
        for job in begun:
            if _lives(job.worker_pid):
                waiting.pop(job.id, None)
        self._since = {name: self._since.get(name, now) for name in waiting}
        return [waiting[name] for name, since in self._since.items() if now - since > LOST_SECONDS]


def _lives(pid: int | None) -> bool:
    """Return True if the child process is alive. Without a pid, trust its start message."""
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
