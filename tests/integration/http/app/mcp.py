"""Tools that stream, wait, ask, flood and fail on demand; what they did is in ``DATA_DIR/ledger``."""

from __future__ import annotations

import asyncio
from typing import Any

from django.conf import settings

from mcp_app import Context, resource, tool
from mcp_app.sessions.resource_updates import anotify_resource_updated

TICK_SECONDS = 0.05
DELIBERATE = "a deliberate fault with hunter2 inside"


def note(line: str) -> None:
    """Write a line for the test, which runs in another process."""
    with (settings.DATA_DIR / "ledger").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


@tool
async def steps(ctx: Context, count: int, delay_seconds: float = 0.0, marker: str = "") -> str:
    """Send ``count`` numbered log messages, then the result."""
    for number in range(1, count + 1):
        ctx.info(f"{marker}{number} Größe 😀")
        await asyncio.sleep(delay_seconds)
    return f"{marker}done"


@tool
async def pause(seconds: float) -> str:
    """Send nothing for a while."""
    await asyncio.sleep(seconds)
    return "paused"


@tool
async def hold(ctx: Context, name: str, seconds: float) -> str:
    """Work for a while and record the outcome."""
    note(f"start {name}")
    try:
        for _ in range(round(seconds / TICK_SECONDS)):
            await asyncio.sleep(TICK_SECONDS)
            note(f"tick {name}")
    except asyncio.CancelledError:
        note(f"cancelled {name}")
        raise
    note(f"finished {name}")
    return name


@tool
async def chatter(ctx: Context, name: str, seconds: float) -> str:
    """Keep its stream busy."""
    for number in range(round(seconds / TICK_SECONDS)):
        ctx.info(f"{name} {number}")
        await asyncio.sleep(TICK_SECONDS)
    return name


@tool
async def welcome(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.aelicit("What is your name?", str)
    return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool
def greet_from_thread(ctx: Context) -> str:
    """Ask for a name in synchronous code."""
    answer = ctx.elicit("What is your name?", str)
    return f"Hello, {answer.value}!" if answer else f"No name: {answer.action}."


@tool
async def visit(ctx: Context) -> str:
    """Ask the user to open a URL."""
    answer = await ctx.aelicit_url("Please sign in.", "https://example.com/login", "visit-1")
    return answer.action


@tool
async def ask_model(ctx: Context) -> str:
    """Sample the client's model."""
    result = await ctx.asample("Say something.", max_tokens=10)
    return str(result["content"]["text"])


@tool
async def ask_model_with_tools(ctx: Context) -> str:
    """Sample the client's model with a tool."""
    chosen: dict[str, Any] = {"name": "t", "inputSchema": {"type": "object"}}
    await ctx.asample("Use the tool.", max_tokens=10, tools=[chosen])
    return "sampled"


@tool
async def list_roots(ctx: Context) -> str:
    """Request the client's roots."""
    return ", ".join(root["uri"] for root in await ctx.aroots())


@tool
async def flood(ctx: Context, count: int, size: int) -> str:
    """Send large log messages at full speed."""
    for number in range(count):
        ctx.info(f"{number} " + "x" * size)
        await asyncio.sleep(0)
    return "flooded"


@tool(max_result_tokens=10_000_000)
async def large(size: int) -> str:
    """Return a long text."""
    return "x" * size


@tool
async def touch(uri: str) -> str:
    """Notify subscribers that a resource changed."""
    await anotify_resource_updated(uri)
    return "touched"


@tool
async def fail() -> str:
    """Raise an unexpected exception."""
    raise RuntimeError(DELIBERATE)


@resource("fault://resource", mime_type="text/plain")
async def broken() -> str:
    """Raise an unexpected exception."""
    raise RuntimeError(DELIBERATE)


@tool
def spare() -> str:
    """Be disabled and enabled by tests."""
    return "spare"


ROUTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "shard": {"type": "integer", "x-mcp-header": "Shard"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
    },
}


@tool(input_schema=ROUTED)
async def routed(**arguments: Any) -> str:
    """Accept arguments that a proxy may route by."""
    return ", ".join(sorted(arguments))
