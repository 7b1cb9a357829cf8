"""Text that clients find hard to read, and a page that hosts show."""

from __future__ import annotations

from mcp_app import Context, tool


@tool
async def repeat(ctx: Context, text: str) -> str:
    """Writes a text to the log, in an event stream, and returns it."""
    ctx.info(text)
    return text
