"""One tool for each path, written as an application developer writes them."""

from __future__ import annotations

from mcp_app import Context, tool


@tool
async def echo(text: str) -> str:
    """Answer the same text; needs no waiting."""
    return text


@tool
async def echo_in_task(ctx: Context, text: str) -> str:
    """Answer the same text; whoever takes a context runs as a task."""
    return text


@tool(background=True)
async def report(ctx: Context) -> str:
    """Report progress twice."""
    ctx.progress(1, 2)
    ctx.progress(2, 2)
    return "done"


@tool(background=True)
async def ask(ctx: Context) -> str:
    """Ask the client one question."""
    return str(await ctx.aelicit("Shall I?", bool))
