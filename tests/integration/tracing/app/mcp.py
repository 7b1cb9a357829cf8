"""Tools that tell what they know of their trace, log, ask and fail."""

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
    """Tells from the event loop."""
    return _known(ctx, mark)


@tool
def look_in_thread(ctx: Context, mark: str = "") -> dict[str, Any]:
    """Tells from a thread."""
    return _known(ctx, mark)


@tool(background=True)
def look_in_worker(ctx: Context, mark: str = "") -> dict[str, Any]:
    """Tells from a worker."""
    return _known(ctx, mark)


@tool
async def never_waits(text: str) -> str:
    """A quick tool."""
    return text


@tool(background=True)
async def ask(ctx: Context) -> str:
    """Asks the client."""
    return (await ctx.aelicit("Who?", {"type": "object", "properties": {}})).action


@tool(background=True)
async def fail(text: str) -> str:
    """Fails with the client's words."""
    raise RuntimeError(text)
