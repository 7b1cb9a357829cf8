"""The official Python SDK of August 2025, which cuts events at U+2028: mcp112.py http|sse <url> <text>."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamablehttp_client

PATIENCE = 20.0


async def main(kind: str, url: str, text: str) -> None:
    """Call two tools with ``text`` and print the results."""
    logs: list[Any] = []

    async def heard(message: Any) -> None:
        said = getattr(message, "root", None)
        if isinstance(said, types.LoggingMessageNotification):
            logs.append(said.params.data)

    transport = {"http": streamablehttp_client, "sse": sse_client}[kind]
    async with transport(url) as streams, ClientSession(
        streams[0], streams[1], message_handler=heard
    ) as session:  # fmt: skip
        await session.initialize()
        answers = {}
        for name in ("echo", "repeat"):
            async with asyncio.timeout(PATIENCE):
                result = await session.call_tool(name, {"text": text})
            answers[name] = result.content[0].text
    print(json.dumps({"answers": answers, "logs": logs}))


asyncio.run(main(*sys.argv[1:]))
