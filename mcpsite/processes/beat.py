"""Celery's beat, when the clock of its machine is set back."""

from __future__ import annotations

import time
from typing import Any

from celery.beat import PersistentScheduler


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """A schedule in which no task is later than its period, however far the clock goes back.

    Celery waits until the clock has caught up with the last run: an hour longer at the end of one that was an
    hour ahead.
    """

    _ticked_at = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Run what is due; return the seconds until the next look."""
        now = time.time()
        if now < self._ticked_at:
            self._count_from_now()
        self._ticked_at = now
        return super().tick(*args, **kwargs)

    def _count_from_now(self) -> None:
        """Begin the period of each task that last ran in the future, and forget the times computed then."""
        for entry in self.schedule.values():
            entry.last_run_at = min(entry.last_run_at, entry.default_now())
        self._heap = None
