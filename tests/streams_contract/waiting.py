"""Waiting in these tests: on a condition, with a bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from mcp_app.streams import StreamLimits, Streams
from tests.bounds import SLACK

Connect = Callable[..., Awaitable[Streams]]
STEP_SECONDS = 0.2


class Clock:
    """The clock of the in-memory stores, advanced by each wait; Redis has its own."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


CLOCK = Clock()


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Return when the condition holds; fail after ``seconds``."""
    async with asyncio.timeout(seconds + SLACK):
        while not await condition():
            CLOCK.ahead += STEP_SECONDS
            await asyncio.sleep(0.01)


def limits(**changes: float) -> StreamLimits:
    """Return the default limits with some changes."""
    return StreamLimits(**changes)  # type: ignore[arg-type]
