"""Reports what one process counted, and how it is, once a second to where all processes are added up."""

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
    """The message log of a process, as far as reports name it."""

    process: str
    left_out: int


class MetricsReporter:
    """The reports of one process, a ``web`` or a ``worker`` one; for the event loop it is started on.

    ``gauges`` are read at each report: a module with a number to report adds a function.
    """

    def __init__(self, kind: str, streams: Streams, counts: Counts, log: Lines) -> None:
        self.gauges: dict[str, Callable[[], int | None]] = {}
        self._streams = streams
        self._counts = counts
        self._log = log
        self._left_out = 0
        # A process that is started again may have the host and number of the one it replaces.
        self._process = f"{log.process}:{secrets.token_hex(4)}"
        self._facts = {"kind": kind, "name": self._process, "started": time.time()}
        self._number = 0
        self._unconfirmed: list[Increment] | None = None
        self._reporting = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to report; needs a running event loop."""
        self._task = asyncio.create_task(self._report_forever())

    async def close(self) -> None:
        """Stop after a last report."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
            await self.report()

    async def report(self) -> bool:
        """Hand on everything counted so far; False when Redis takes nothing, then it stays counted here."""
        async with self._reporting:
            if self._unconfirmed is None:
                self._number += 1
                self._unconfirmed = [*self._counts.take(), *tally.take(), *self._lines_left_out()]
            try:
                # With its former number, because it may have arrived the first time.
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
    """Memory of this process; None where the system does not tell."""
    try:
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
