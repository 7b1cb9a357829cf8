"""One entry of each kind."""

from __future__ import annotations

import asyncio
from typing import Literal

from mcp_app import Context, prompt, resource, tool


@tool
async def quick(text: str) -> str:
    """Return immediately."""
    return text


@tool
def threaded(text: str) -> str:
    """Return from a thread."""
    return text


@tool
async def slow(ctx: Context, text: str) -> str:
    """Report progress, so that the response is a stream."""
    ctx.progress(1, 2)
    await asyncio.sleep(0)
    return text


@tool(background=True)
async def later(text: str) -> str:
    """Return from a worker."""
    return text


@tool
async def ask(ctx: Context) -> bool:
    """Ask the client from a web process."""
    return bool(await ctx.aelicit("Go on?", bool))


@tool(background=True)
async def ask_later(ctx: Context) -> bool:
    """Ask the client from a worker."""
    return bool(await ctx.aelicit("Go on?", bool))


@prompt
def hello(name: Literal["Ada", "Bob"]) -> str:
    """Greet."""
    return name


@resource("counted://note")
def note() -> str:
    """A note."""
    return "note"
