"""Long-running tools: progress, log messages, cancellation, deadlines."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from mcp_app import Context, tool
from mcp_app.protocol.messages.logging import LEVELS
from tests.integration.features.catalogue_app.structures import Weather
from tests.integration.features.catalogue_app.values import SECRET

STOPPED: list[str] = []
_late: set[asyncio.Task[None]] = set()


@tool
async def report(ctx: Context, values: list[float], total: float | None = None) -> str:
    """Report these values as progress."""
    for value in values:
        ctx.progress(value, total, f"at {value:g}")
    return "reported"


@tool
def report_in_thread(ctx: Context, values: list[float]) -> str:
    """Report these values as progress from a thread."""
    for value in values:
        ctx.progress(value)
    return "reported"


@tool
async def report_late(ctx: Context) -> str:
    """Report progress after the result."""

    async def late() -> None:
        await asyncio.sleep(0.05)
        ctx.progress(2)
        ctx.info("too late")

    task = asyncio.create_task(late())
    _late.add(task)
    task.add_done_callback(_late.discard)
    ctx.progress(1)
    return "answered"


@tool
def track(ctx: Context, count: int) -> str:
    """Report progress automatically over a list."""
    return ",".join(str(item) for item in ctx.track(range(count), "item {}"))


@tool
async def track_async(ctx: Context, count: int) -> str:
    """Report progress automatically over a list in a coroutine."""
    return ",".join([str(item) async for item in ctx.atrack(list(range(count)), "item {}")])


@tool
def log_every_level(ctx: Context) -> str:
    """Log once at each level."""
    for level in LEVELS:
        ctx.log(level, f"at {level}", logger="levels")
    return "logged"


@tool
def log_data(ctx: Context) -> str:
    """Log a text with data."""
    ctx.warning("low on paper", tray=2, left=0.1)
    return "logged"


@tool
async def log_much(ctx: Context, count: int) -> str:
    """Log the requested number of messages."""
    for number in range(count):
        ctx.info(number)
    return "logged"


@tool
async def wait(ctx: Context, seconds: float, mark: str) -> str:
    """Wait and record the mark when cancelled."""
    ctx.info("waiting")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        STOPPED.append(mark)
        raise
    return "waited"


@tool
def wait_in_thread(ctx: Context, seconds: float, mark: str) -> str:
    """Wait in a thread and poll for cancellation."""
    ctx.info("waiting")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ctx.cancelled:
            STOPPED.append(mark)
            ctx.raise_if_cancelled()
        time.sleep(0.01)
    return "waited"


@tool
def stopped() -> Any:
    """Return the marks recorded by this process."""
    return {"marks": STOPPED}


@tool(timeout=0.4)
async def short_deadline(seconds: float) -> str:
    """Run with a timeout below half a second."""
    await asyncio.sleep(seconds)
    return "in time"


@tool
def log_values(ctx: Context) -> str:
    """Log values that need conversion to JSON, and one that cannot be converted."""
    ctx.info(datetime(2025, 11, 25, 12, tzinfo=UTC))
    ctx.info("a model", found=Weather(city="Bern", degrees=21.5))
    ctx.info("half \ud83d")
    ctx.info(object())
    return "logged"


@tool
def log_secrets(ctx: Context) -> str:
    """Log secrets that must not leave the server."""
    ctx.info("signing in", user="ada", password=SECRET)
    ctx.info({"headers": {"Authorization": f"Bearer {SECRET}-and-more"}})
    ctx.info(f"opening https://ada:{SECRET}@db.example/")
    return "logged"
