"""Core tasks with the official Python SDK of the first line: mcp1_tasks.py <url>"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamable_http_client

HEARD: list[tuple[str, str]] = []


async def _elicited(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(
        action="accept", content=dict.fromkeys(params.requestedSchema["properties"], "Ada")
    )


async def _heard(message: Any) -> None:
    said = getattr(message, "root", None)
    if isinstance(said, types.TaskStatusNotification):
        HEARD.append((said.params.taskId, said.params.status))


def _text(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


async def _walk(session: ClientSession) -> dict[str, Any]:
    declared = (await session.initialize()).capabilities.tasks
    assert declared is not None
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    does = session.experimental
    worked = (await does.call_tool_as_task("work", {"nonce": "w", "steps": 15}, ttl=60_000)).task
    polled = [seen.status async for seen in does.poll_task(worked.taskId)]
    asked = (await does.call_tool_as_task("ask_slowly", {"nonce": "a"})).task
    answer = await does.get_task_result(asked.taskId, types.CallToolResult)
    long = (await does.call_tool_as_task("work", {"nonce": "l", "steps": 600})).task
    cancelled = await does.cancel_task(long.taskId)
    try:
        await does.get_task_result(long.taskId, types.CallToolResult)
        code = 0
    except McpError as error:
        code = error.error.code
    return {
        "declared": declared.model_dump(exclude_none=True),
        "support": {name: tool.execution and tool.execution.taskSupport for name, tool in tools.items()},
        "made": worked.model_dump(mode="json"),
        "polled": polled,
        "worked": _text(await does.get_task_result(worked.taskId, types.CallToolResult)),
        "asked": _text(answer),
        "related": (answer.meta or {})["io.modelcontextprotocol/related-task"]["taskId"] == asked.taskId,
        "cancelled": cancelled.status,
        "cancelled_code": code,
        "heard": [status for task_id, status in HEARD if task_id == asked.taskId],
    }


async def main(url: str) -> None:
    """Walk and print the report."""
    async with streamable_http_client(url) as streams, ClientSession(
        streams[0], streams[1], elicitation_callback=_elicited, message_handler=_heard
    ) as session:  # fmt: skip
        report = await _walk(session)
    print(json.dumps(report))


# The SDK warns at each step that the next line has no core tasks.
warnings.simplefilter("ignore")
asyncio.run(main(*sys.argv[1:]))
