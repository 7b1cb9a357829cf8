"""Celery's beat with support for a clock that is set back."""

from __future__ import annotations

import time
from typing import Any

from celery.beat import PersistentScheduler


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """A schedule in which no task runs later than its period, however far the clock is set back.

    Celery waits until the clock has reached the last run again: an extra hour after a clock was an hour
    ahead.
    """

    _ticked_at = 0.0

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        """Run due tasks; return the seconds until the next check."""
        now = time.time()
        if now < self._ticked_at:
            self._count_from_now()
        self._ticked_at = now
        return super().tick(*args, **kwargs)

    def _count_from_now(self) -> None:
        """Restart the period of tasks that last ran in the future, and discard computed times."""
        for entry in self.schedule.values():
            entry.last_run_at = min(entry.last_run_at, entry.default_now())
        self._heap = None
