"""Finds jobs that Celery's main process lost because their child died just then; does not know Celery.

It is lost on the way to the child, or when the child's word that it has begun is read after its death was
seen to. Such a job is neither run nor acknowledged, and keeps its place among those a worker may hold for
ever. With as many of them as it has children, a worker takes no more jobs while it seems well.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import Protocol, TypeVar

# A job that a worker took is begun at once: it takes no more of them than it has children.
LOST_SECONDS = 15.0


class Job(Protocol):
    """What a worker took from the broker."""

    @property
    def id(self) -> str: ...

    @property
    def worker_pid(self) -> int | None:
        """The child that said it has begun."""
        ...


J = TypeVar("J", bound=Job)


class LostJobs:
    """Of one worker's main process, which asks every few seconds."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def among(self, taken: Iterable[J], begun: Iterable[J]) -> list[J]:
        """The jobs that no living child has begun for too long; one may only be slow, and run after all."""
        now = time.monotonic()
        waiting = {job.id: job for job in taken}
        for job in begun:
            if _lives(job.worker_pid):
                waiting.pop(job.id, None)
        self._since = {name: self._since.get(name, now) for name in waiting}
        return [waiting[name] for name, since in self._since.items() if now - since > LOST_SECONDS]


def _lives(pid: int | None) -> bool:
    """Whether a child of this process is there; without a number, the word that it has begun is taken."""
    if pid is None:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
