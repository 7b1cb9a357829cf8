"""Work for thousands of connections, split over turns of the event loop. Requests are served in between."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# The number of items per turn, which take one or two milliseconds.
TOGETHER = 100


def run_in_turns(each: Callable[[T], None], items: Sequence[T]) -> None:
    """Call ``each`` with every item, in order, from the next turn of the event loop on.

    If the work needs several turns, the garbage collector is disabled until the last turn. With thousands of
    open streams, one full collection takes as long as notifying all streams.
    """
    if items:
        asyncio.get_running_loop().call_soon(_turn, each, items, 0)


def _turn(each: Callable[[T], None], items: Sequence[T], start: int) -> None:
    end = start + TOGETHER
    if end < len(items):
        if start == 0:
            _collector.hold()
        # The next turn is scheduled first, so that an exception does not stop the other items.
        asyncio.get_running_loop().call_soon(_turn, each, items, end)
    try:
        for item in items[start:end]:
            each(item)
    finally:
        if start and end >= len(items):
            _collector.release()


class _Collector:
    """A switch for the garbage collector, which is enabled again after the last of overlapping holds."""

    def __init__(self) -> None:
        self._holds = 0
        self._was_enabled = False

    def hold(self) -> None:
        if not self._holds:
            self._was_enabled = gc.isenabled()
            gc.disable()
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1
        if not self._holds and self._was_enabled:
            gc.enable()


_collector = _Collector()
