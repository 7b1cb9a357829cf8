"""Tools that return their trace context, log, elicit and fail."""

from __future__ import annotations

import logging
from typing import Any

from mcp_app import Context, tool

log = logging.getLogger("shop")


def _known(ctx: Context, mark: str) -> dict[str, Any]:
    log.warning("At work: %s", mark)
    return {"traceparent": ctx.traceparent, "headers": ctx.trace_headers, "meta": ctx.meta}


@tool
async def look(ctx: Context, mark: str = "") -> dict[str, Any]:
    """Return the trace context in the event loop."""
    return _known(ctx, mark)


@tool
def look_in_thread(ctx: Context, mark: str = "") -> dict[str, Any]:
    """Return the trace context in a thread."""
    return _known(ctx, mark)


@tool(background=True)
def look_in_worker(ctx: Context, mark: str = "") -> dict[str, Any]:
    """Return the trace context in a worker."""
    return _known(ctx, mark)


@tool
async def never_waits(text: str) -> str:
    """Return the text without waiting."""
    return text


@tool(background=True)
async def ask(ctx: Context) -> str:
    """Elicit from the client."""
    return (await ctx.aelicit("Who?", {"type": "object", "properties": {}})).action


@tool(background=True)
async def fail(text: str) -> str:
    """Fail with the client's text."""
    raise RuntimeError(text)
