"""The official Python SDK, second line: mcp2.py legacy|auto|2026-07-28 http|sse|stdio <url or command> …"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from contextlib import AsyncExitStack
from typing import Any

import features
import mcp_types as types
import second_line
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client

# Features that 2026-07-28 removed are still used with servers of the older era.
warnings.simplefilter("ignore")


async def _elicited(context: Any, params: Any) -> types.ElicitResult:
    content = dict.fromkeys(params.requested_schema["properties"], "Ada")
    return types.ElicitResult(action="accept", content=content)


async def _sampled(context: Any, params: Any) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="words")
    return types.CreateMessageResult(role="assistant", content=content, model="m", stop_reason="endTurn")


async def _roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada")])


async def _logged(params: types.LoggingMessageNotificationParams) -> None:
    second_line.HEARD.logs.append(params.data)


class Does(second_line.Steps):
    """The walk's steps with this client."""

    lists = ("list_tools", "list_prompts", "list_resources", "list_resource_templates")

    async def call(self, name: str, arguments: dict[str, Any], step: Any = None) -> dict[str, Any]:
        async def stepped(progress: float, total: float | None, message: str | None) -> None:
            step({"progress": progress, "total": total, "message": message})

        result = await self.client.call_tool(name, arguments, progress_callback=stepped if step else None)
        return second_line.outcome(result)

    async def read(self, uri: str) -> str:
        (found,) = (await self.client.read_resource(uri)).contents
        return found.text

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        return (await self.client.complete(reference, {"name": argument, "value": value})).completion.values

    async def subscribe(self, uri: str) -> None:
        if self.modern:
            news = self.client.listen(tools_list_changed=True, resource_subscriptions=[uri])
            await self.stack.enter_async_context(news)
        else:
            await self.client.subscribe_resource(uri)


async def main(mode: str, kind: str, *target: str) -> None:
    """Walk and print the report."""
    server: Any = {
        "http": lambda: target[0],
        "sse": lambda: sse_client(target[0]),
        "stdio": lambda: StdioServerParameters(
            command=target[0], args=list(target[1:]), env=dict(os.environ)
        ),
    }[kind]()
    client = Client(
        server, mode=mode, sampling_callback=_sampled, elicitation_callback=_elicited,
        list_roots_callback=_roots, logging_callback=_logged, log_level="info",
        message_handler=second_line.heard,
    )  # fmt: skip
    async with client, AsyncExitStack() as stack:
        report = await features.walk(Does(client, stack), second_line.HEARD)
        report["version"] = client.protocol_version
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
