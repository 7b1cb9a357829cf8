"""The FastMCP client, fourth line: fastmcp4.py legacy|auto|2026-07-28 http|sse|stdio <url or command> …"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

import features
import mcp_types as types
import second_line
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen

# In 2026-07-28 each request has its log level; this client requests every level by default.
LEVEL = {"io.modelcontextprotocol/logLevel": "info"}


async def _elicited(message: str, response_type: Any, params: Any, context: Any) -> dict[str, Any]:
    return dict.fromkeys(params.requested_schema["properties"], "Ada")


async def _sampled(messages: Any, params: Any, context: Any) -> str:
    return "words"


async def _logged(message: Any) -> None:
    data = message.data
    second_line.HEARD.logs.append(data["msg"] if isinstance(data, dict) else data)


class Does(second_line.Steps):
    """The walk's steps with this client."""

    lists = (
        "list_tools_mcp",
        "list_prompts_mcp",
        "list_resources_mcp",
        "list_resource_templates_mcp",
    )

    async def call(self, name: str, arguments: dict[str, Any], step: Any = None) -> dict[str, Any]:
        async def stepped(progress: float, total: float | None, message: str | None) -> None:
            if step:
                step({"progress": progress, "total": total, "message": message})

        meta = LEVEL if self.modern else None
        result = await self.client.call_tool_mcp(name, arguments, progress_handler=stepped, meta=meta)
        return second_line.outcome(result)

    async def read(self, uri: str) -> str:
        return (await self.client.read_resource(uri))[0].text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self.client.complete(reference, {"name": argument, "value": value})).values

    async def subscribe(self, uri: str) -> None:
        if self.modern:
            # The client has no method for it.
            news = listen(self.client.session, tools_list_changed=True, resource_subscriptions=[uri])
            await self.stack.enter_async_context(news)
        else:
            await self.client.session.subscribe_resource(uri)


async def main(mode: str, kind: str, *target: str) -> None:
    """Walk and print the report."""
    transport: Any
    if kind == "http":
        transport = StreamableHttpTransport(target[0])
    elif kind == "sse":
        transport = SSETransport(target[0])
    else:
        transport = StdioTransport(target[0], list(target[1:]), env=dict(os.environ), keep_alive=False)
    client = Client(
        transport, mode=mode, elicitation_handler=_elicited, sampling_handler=_sampled,
        roots=["file:///home/ada"], log_handler=_logged, message_handler=second_line.heard,
    )  # fmt: skip
    async with client, AsyncExitStack() as stack:
        report = await features.walk(Does(client, stack), second_line.HEARD)
        report["version"] = client.protocol_version
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
