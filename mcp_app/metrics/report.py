"""Reports of a process's counts and state.

They are sent once a second to the store that adds up all processes.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import orjson

from mcp_app.metrics import tally
from mcp_app.metrics.counts import Counts, Increment
from mcp_app.streams.base import StreamsError
from mcp_app.streams.gateway import Streams

REPORT_SECONDS = 1.0
STATM = Path("/proc/self/statm")


class Lines(Protocol):
    """The part of a process's message log that reports use."""

    process: str
    left_out: int


class MetricsReporter:
    """The reporter of one process, ``web`` or ``worker``, for the event loop on which it is started.

    ``gauges`` are called for each report. Other modules add one function for each gauge.
    """

    def __init__(self, kind: str, streams: Streams, counts: Counts, log: Lines) -> None:
        self.gauges: dict[str, Callable[[], int | None]] = {}
        self._streams = streams
        self._counts = counts
        self._log = log
        self._left_out = 0
        # A random suffix, because a restarted process may have the host name and process id of an earlier
        # process.
        self._process = f"{log.process}:{secrets.token_hex(4)}"
        self._facts = {"kind": kind, "name": self._process, "started": time.time()}
        self._number = 0
        self._unconfirmed: list[Increment] | None = None
        self._reporting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start reporting. This needs a running event loop."""
        self._task = asyncio.create_task(self._report_forever())

    async def close(self) -> None:
        """Stop reporting after one last report."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            await self.report()

    async def report(self) -> bool:
        """Send all counts collected so far. If Redis is unavailable, keep them and return False."""
        async with self._reporting:
            if self._unconfirmed is None:
                self._number += 1
                self._unconfirmed = [*self._counts.take(), *tally.take(), *self._lines_left_out()]
            try:
                # A repeated report has the same number, because the first attempt may have succeeded.
                await self._streams.metrics.add(self._process, self._number, self._unconfirmed, self._state())
            except StreamsError:
                return False
            self._unconfirmed = None
            return True

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            await self.report()

    def _lines_left_out(self) -> list[Increment]:
        before, self._left_out = self._left_out, self._log.left_out
        return [("left_out", "", "", self._left_out - before)] if self._left_out > before else []

    def _state(self) -> bytes:
        state: dict[str, Any] = {**self._facts, "cpu": time.process_time(), "memory": _resident_bytes()}
        return orjson.dumps({**state, **{name: gauge() for name, gauge in self.gauges.items()}})


def _resident_bytes() -> int | None:
    """Return the memory used by this process, or None if the system does not provide this number."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
