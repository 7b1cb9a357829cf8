"""A proxy of the official Python SDK as a peer: sessions on, JSON responses, logging off.

All callers share one session with the other server, which is the cheapest that the SDK offers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp import Client, types
from mcp.server.lowlevel import Server

logging.disable(logging.CRITICAL)


@asynccontextmanager
async def _connected(_: Server[Client]) -> AsyncIterator[Client]:
    async with Client(os.environ["BENCH_UPSTREAM"]) as client:
        yield client


async def _list(context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    client: Client = context.lifespan_context
    return await client.list_tools()


async def _call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    client: Client = context.lifespan_context
    return await client.call_tool(params.name, params.arguments)


server = Server("bench", lifespan=_connected, on_list_tools=_list, on_call_tool=_call)
application = server.streamable_http_app(json_response=True)
