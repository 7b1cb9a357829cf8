"""The official Python SDK of the first line: mcp1.py http|sse <url>, or mcp1.py stdio <command> …"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import features
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

HEARD = features.Heard()


async def _elicited(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(
        action="accept", content=dict.fromkeys(params.requestedSchema["properties"], "Ada")
    )


async def _sampled(context: Any, params: Any) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="words")
    return types.CreateMessageResult(role="assistant", content=content, model="m", stopReason="endTurn")


async def _roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada")])


async def _heard(message: Any) -> None:
    said = getattr(message, "root", None)
    if isinstance(said, types.LoggingMessageNotification):
        HEARD.logs.append(said.params.data)
    elif isinstance(said, types.ResourceUpdatedNotification):
        HEARD.updated.append(str(said.params.uri).rstrip("/"))
    elif isinstance(said, types.ToolListChangedNotification):
        HEARD.changed.append("tools")


class Does:
    """The walk's steps with this client."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def listed(self, kind: str, cursor: str | None) -> tuple[list[str], str | None]:
        params = types.PaginatedRequestParams(cursor=cursor)
        method, member, key = {
            "tools": (self.session.list_tools, "tools", "name"),
            "prompts": (self.session.list_prompts, "prompts", "name"),
            "resources": (self.session.list_resources, "resources", "uri"),
            "templates": (self.session.list_resource_templates, "resourceTemplates", "uriTemplate"),
        }[kind]
        found = await method(params=params)
        return [str(getattr(item, key)) for item in getattr(found, member)], found.nextCursor

    async def call(self, name: str, arguments: dict[str, Any], step: Any = None) -> dict[str, Any]:
        async def stepped(progress: float, total: float | None, message: str | None) -> None:
            step({"progress": progress, "total": total, "message": message})

        result = await self.session.call_tool(name, arguments, progress_callback=stepped if step else None)
        text = "".join(block.text for block in result.content if block.type == "text")
        return {"text": text, "structured": result.structuredContent, "isError": result.isError}

    async def read(self, uri: str) -> str:
        return (await self.session.read_resource(AnyUrl(uri))).contents[0].text

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        return "".join(
            message.content.text for message in (await self.session.get_prompt(name, arguments)).messages
        )

    async def complete(self, prompt: str, argument: str, value: str) -> list[str]:
        reference = types.PromptReference(type="ref/prompt", name=prompt)
        found = await self.session.complete(reference, {"name": argument, "value": value})
        return found.completion.values

    async def set_level(self, level: Any) -> None:
        await self.session.set_logging_level(level)

    async def subscribe(self, uri: str) -> None:
        await self.session.subscribe_resource(AnyUrl(uri))

    async def cancelled(self, name: str, arguments: dict[str, Any], began: Any) -> None:
        # This client has no method for it: the notification is sent directly.
        number = self.session._request_id
        call = asyncio.create_task(self.session.call_tool(name, arguments))
        assert await began()
        params = types.CancelledNotificationParams(requestId=number, reason="enough")
        notification = types.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(types.ClientNotification(notification))
        try:
            async with asyncio.timeout(1):
                await call
        except (McpError, TimeoutError):
            return
        raise AssertionError("A cancelled call was answered.")


async def main(kind: str, *target: str) -> None:
    """Walk and print the report."""
    server = StdioServerParameters(command=target[0], args=list(target[1:]), env=dict(os.environ))
    transport = {
        "http": lambda: streamable_http_client(target[0]),
        "sse": lambda: sse_client(target[0]),
        "stdio": lambda: stdio_client(server),
    }[kind]
    async with transport() as streams, ClientSession(
        streams[0], streams[1], sampling_callback=_sampled, elicitation_callback=_elicited,
        list_roots_callback=_roots, message_handler=_heard,
    ) as session:  # fmt: skip
        begun = await session.initialize()
        report = await features.walk(Does(session), HEARD)
        report["version"] = begun.protocolVersion
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
