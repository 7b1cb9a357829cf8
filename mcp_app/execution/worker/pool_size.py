"""The number of a worker's children: its concurrency, plus one child for each child that waits for a client.

Only a few names of Celery's pool are used. Call this on the worker's own loop.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from mcp_app.execution.worker.waiting_children import WaitingChildren

# A spare child may soon be needed again, and starting a child costs more than its memory.
SPARE_SECONDS = 10.0

log = logging.getLogger("mcp.worker")


class PoolSize:
    """The pool size, as managed by the main process of one worker."""

    def __init__(self, consumer: Any, waiting: WaitingChildren) -> None:
        self._consumer, self._waiting = consumer, waiting
        self._usual = self._size
        self._spare_since: float | None = None

    @property
    def _size(self) -> int:
        return int(self._consumer.pool.num_processes)

    def children(self) -> dict[int, int]:
        """Return the pid of each child by its slot. Thread-safe."""
        running = self._consumer.pool._pool
        return {} if running is None else {child.index: child.pid for child in [*running._pool]}

    def adjust(self, *, all_begun: bool) -> None:
        """Add a substitute for each waiting child, and end idle spare children after a while.

        ``all_begun`` is True if no job is on its way to a child. Otherwise that child might be the one that
        is ended.
        """
        running = self._consumer.pool._pool
        if running is None:
            return  # A stopping worker still sends heartbeats after its children have exited.
        missing = self._usual + self._waiting.count(self.children()) - self._size
        if missing > 0:
            self._grow(missing)
        if missing >= 0:
            self._spare_since = None
        elif self._spare_since is None:
            self._spare_since = time.monotonic()
        elif time.monotonic() - self._spare_since > SPARE_SECONDS:
            # Until a child that was asked to end has been reaped, the pool would select the same child
            # again.
            reaped = len(running._pool) == self._size
            if all_begun and reaped:
                self._shrink()

    def _grow(self, number: int) -> None:
        pool = self._consumer.pool
        log.info("Starting %d child processes to replace those that wait for clients", number)
        pool.grow(number)
        pool.maintain_pool()
        self._consumer._update_prefetch_count(number)

    def _shrink(self) -> None:
        try:
            self._consumer.pool.shrink(1)
        except ValueError:
            return  # All children are busy. Try again later.
        self._consumer._update_prefetch_count(-1)
