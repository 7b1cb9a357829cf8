"""Owns how these tests wait: on a condition, with a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mcp_app.streams import StreamLimits, Streams
from tests.bounds import SLACK

Connect = Callable[..., Awaitable[Streams]]


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Return once the condition holds; fails after ``seconds``."""
    async with asyncio.timeout(seconds + SLACK):
        while not await condition():
            await asyncio.sleep(0.01)


def limits(**changes: float) -> StreamLimits:
    """The default limits with some changes."""
    return StreamLimits(**changes)  # type: ignore[arg-type]
