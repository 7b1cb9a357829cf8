"""Celery's beat, extended for a clock that is set back."""

from __future__ import annotations

import time
from typing import Any

from celery.beat import PersistentScheduler


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """A schedule in which every task runs within its period, even if the clock is set back.

    Celery would wait until the clock reaches the time of the last run again. If the clock was an hour fast,
    that would take an extra hour.
    """

    _ticked_at = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Run due tasks. Return the seconds until the next check."""
        now = time.time()
        if now < self._ticked_at:
            self._count_from_now()
        self._ticked_at = now
        return super().tick(*args, **kwargs)

    def _count_from_now(self) -> None:
        """Start a new period for tasks that seem to have run in the future, and discard computed times."""
        for entry in self.schedule.values():
            entry.last_run_at = min(entry.last_run_at, entry.default_now())
        self._heap = None
