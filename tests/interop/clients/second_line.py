"""Shared code of the clients on the second line of the Python SDK: its types, and most of the steps."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import features
import mcp_types as types

HEARD = features.Heard()


async def heard(message: Any) -> None:
    """Record a notification of the server."""
    if isinstance(message, types.ResourceUpdatedNotification):
        HEARD.updated.append(str(message.params.uri).rstrip("/"))
    elif isinstance(message, types.ToolListChangedNotification):
        HEARD.changed.append("tools")


class Steps:
    """The walk's steps that both clients share."""

    # Methods that list tools, prompts, resources and templates.
    lists: tuple[str, str, str, str]

    def __init__(self, client: Any, stack: AsyncExitStack) -> None:
        self.client = client
        self.stack = stack
        self.modern = client.protocol_version == "2026-07-28"

    async def listed(self, kind: str, cursor: str | None) -> tuple[list[str], str | None]:
        """Return the names on one page, and the cursor of the next."""
        at, member, key = {
            "tools": (0, "tools", "name"),
            "prompts": (1, "prompts", "name"),
            "resources": (2, "resources", "uri"),
            "templates": (3, "resource_templates", "uri_template"),
        }[kind]
        found = await getattr(self.client, self.lists[at])(cursor=cursor)
        return [str(getattr(item, key)) for item in getattr(found, member)], found.next_cursor

    async def prompt(self, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a prompt."""
        found = await self.client.get_prompt(name, arguments)
        return "".join(message.content.text for message in found.messages)

    async def set_level(self, level: Any) -> None:
        """Set the log level, where a session has one."""
        if not self.modern:
            await self.client.set_logging_level(level)

    async def cancelled(self, name: str, arguments: dict[str, Any], began: Any) -> None:
        """Start a call and cancel it once it has started."""
        call = asyncio.create_task(self.client.session.call_tool(name, arguments))
        assert await began()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call


def outcome(result: Any) -> dict[str, Any]:
    """Return the outcome of a tool call for the report."""
    text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
    return {"text": text, "structured": result.structured_content, "isError": bool(result.is_error)}
