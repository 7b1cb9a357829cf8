"""Does the same for thousands of connections, in turns of the event loop: requests are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

# About a millisecond or two of work.
TOGETHER = 100


def take_turns(work: Sequence[Callable[[], None]]) -> None:
    """Call everything soon and in order; not at once, whatever is running now."""
    if work:
        asyncio.get_running_loop().call_soon(_turn, work, 0)


def _turn(work: Sequence[Callable[[], None]], start: int) -> None:
    end = start + TOGETHER
    if end < len(work):
        # First, so that one that fails keeps nobody else waiting.
        asyncio.get_running_loop().call_soon(_turn, work, end)
    for call in work[start:end]:
        call()
