"""Does the same for thousands of connections, in turns of the event loop: requests are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

# About a millisecond or two of work.
TOGETHER = 100


def take_turns(each: Callable[[T], None], items: Sequence[T]) -> None:
    """Call ``each`` with every item soon and in order; not at once, whatever is running now."""
    if items:
        asyncio.get_running_loop().call_soon(_turn, each, items, 0)


def _turn(each: Callable[[T], None], items: Sequence[T], start: int) -> None:
    end = start + TOGETHER
    if end < len(items):
        # First, so that one that fails keeps nobody else waiting.
        asyncio.get_running_loop().call_soon(_turn, each, items, end)
    for item in items[start:end]:
        each(item)
