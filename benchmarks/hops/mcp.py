"""One tool for each path, written as an application developer writes them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from django.contrib.contenttypes.models import ContentType

from benchmarks.costs import large_structure
from mcp_app import Context, tool

LARGE = large_structure()
# Set while a question is pending: the hop table also counts that part of the call separately.
asking = threading.Event()


@tool
async def echo(text: str) -> str:
    """Answer the same text; needs no waiting."""
    return text


@tool
async def echo_in_task(ctx: Context, text: str) -> str:
    """Answer the same text; takes a context."""
    return text


@tool
async def echo_later(text: str) -> str:
    """Answer the same text, in the next turn of the event loop."""
    await asyncio.sleep(0)
    return text


@tool
def echo_in_thread(text: str) -> str:
    """Answer the same text; synchronous."""
    return text


@tool
def query_in_thread(text: str) -> str:
    """Answer the same text after one indexed query; synchronous."""
    ContentType.objects.values_list("model", flat=True).get(pk=1)
    return text


@tool
async def query_later(text: str) -> str:
    """Answer the same text after one indexed query, awaited."""
    await ContentType.objects.filter(pk=1).values_list("model", flat=True).afirst()
    return text


@tool
async def large(text: str) -> dict[str, Any]:
    """Answer rows of a table, 100 KiB as JSON; needs no waiting."""
    return LARGE


@tool(background=True)
async def report(ctx: Context) -> str:
    """Report progress twice."""
    ctx.progress(1, 2)
    ctx.progress(2, 2)
    return "done"


@tool(background=True)
async def ask(ctx: Context) -> str:
    """Ask the client one question."""
    asking.set()
    answer = await ctx.aelicit("Shall I?", bool)
    asking.clear()
    return str(answer)
