"""The background tools, written as an application developer writes them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from django.conf import settings

from mcp_app import Context, tool

# The burst of progress that is not throttled, and a pause after which the next report is sent at once.
PAUSE_SECONDS = 0.12


@tool(background=True)
async def start() -> str:
    """Return when the first line ran, on both clocks: rows store the time of day."""
    return f"{time.monotonic()!r} {time.time()!r}"


@tool(background=True)
async def report(ctx: Context, count: int) -> str:
    """Report progress; each report contains the time of its creation."""
    for number in range(1, count + 1):
        ctx.progress(number, count, repr(time.monotonic()))
        await asyncio.sleep(PAUSE_SECONDS)
    return "done"


@tool(background=True)
async def hold(ctx: Context) -> str:
    """Run until cancelled and record the time."""
    try:
        ctx.info("running")
        await asyncio.sleep(60)
    finally:
        Path(settings.DATA_DIR, "stopped").write_text(repr(time.monotonic()))
    return "never stopped"
