"""The benchmark's tools, written as an application developer writes them."""

from __future__ import annotations

import os

from benchmarks.catalogue import FILLER_DESCRIPTION, filler_names
from mcp_app import tool


@tool
async def echo(text: str) -> str:
    """Answer the same text."""
    return text


async def _repeat(text: str, count: int = 1) -> str:
    return text * count


for _name in filler_names(int(os.environ.get("BENCH_TOOLS", "10"))):
    tool(name=_name, description=FILLER_DESCRIPTION)(_repeat)
