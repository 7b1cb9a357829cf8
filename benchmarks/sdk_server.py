"""The official Python SDK as a peer: the same tools, sessions on, JSON responses, logging off."""

from __future__ import annotations

import os

from mcp.server import MCPServer

from benchmarks.catalogue import FILLER_DESCRIPTION, filler_names

server = MCPServer("bench", log_level="CRITICAL")


@server.tool()
async def echo(text: str) -> str:
    """Answer the same text."""
    return text


async def _filler(text: str, count: int = 1) -> str:
    return text * count


for _name in filler_names(int(os.environ.get("BENCH_TOOLS", "10"))):
    server.add_tool(_filler, name=_name, description=FILLER_DESCRIPTION)

application = server.streamable_http_app(json_response=True, max_sessions=None)
