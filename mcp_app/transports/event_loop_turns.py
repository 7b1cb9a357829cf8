"""Work for thousands of connections in turns of the event loop, with requests served in between."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# About a millisecond or two of work.
TOGETHER = 100


def run_in_turns(each: Callable[[T], None], items: Sequence[T]) -> None:
    """Call ``each`` with every item, in order, from the next turn of the event loop on.

    Over several turns, the garbage collector is disabled until the last: with thousands of open streams, one
    full collection takes as long as notifying all of them.
    """
    if items:
        asyncio.get_running_loop().call_soon(_turn, each, items, 0)


def _turn(each: Callable[[T], None], items: Sequence[T], start: int) -> None:
    end = start + TOGETHER
    if end < len(items):
        if start == 0:
            _collector.hold()
        # First, so that an exception does not delay other items.
        asyncio.get_running_loop().call_soon(_turn, each, items, end)
    try:
        for item in items[start:end]:
            each(item)
    finally:
        if start and end >= len(items):
            _collector.release()


class _Collector:
    """The garbage collector, enabled again after the last of overlapping holds."""

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
