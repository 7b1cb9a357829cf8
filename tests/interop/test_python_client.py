"""The official Python client lists and calls everything in the demo, asked for legacy and left to choose."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.sse import sse_client

from tests.interop import walk
from tests.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]


async def _answer(context: Any, params: Any) -> types.ElicitResult:
    assert "name" in params.requested_schema["properties"]
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def _decline(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def _calls(client: Client, page_url: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    async def stepped(progress: float, total: float | None, message: str | None) -> None:
        steps.append({"progress": progress, "total": total, "message": message})

    calls = {}
    for name, arguments in walk.arguments(page_url).items():
        callback = stepped if name == "count" else None
        result = await client.call_tool(name, arguments, progress_callback=callback)
        text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        calls[name] = {
            "text": text,
            "structured": result.structured_content,
            "isError": bool(result.is_error),
        }
    return calls


async def _more(client: Client) -> dict[str, Any]:
    review = await client.get_prompt("code_review", {"code": "x = 1", "language": "python"})
    read = await client.read_resource("demo://greeting/Ada")
    reference = types.PromptReference(type="ref/prompt", name="code_review")
    completed = await client.complete(reference, {"name": "language", "value": "py"})
    return {
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
        "resources": [str(item.uri) for item in (await client.list_resources()).resources],
        "templates": [
            item.uri_template for item in (await client.list_resource_templates()).resource_templates
        ],
        "greeting": read.contents[0].text,  # type: ignore[union-attr]
        "review": "".join(message.content.text for message in review.messages),  # type: ignore[union-attr]
        "completion": completed.completion.values,
    }


@pytest.mark.requirement("CONF-03", "ERA-02")
@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_python_client_lists_and_calls_everything(
    live: LiveServer, page_url: str, mode: str
) -> None:
    progress: list[dict[str, Any]] = []
    async with Client(live.url, mode=mode, elicitation_callback=_answer) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        report = {"tools": tools, "calls": await _calls(client, page_url, progress), "progress": progress}
        report |= await _more(client)
    walk.check(report, asks=mode == "legacy")
    walk.check_progress(report)
    walk.check_more(report)


@pytest.mark.requirement("SSE1-01", "SSE1-02", "SSE1-07")
async def test_the_python_client_does_the_same_over_http_sse(live: LiveServer, page_url: str) -> None:
    progress: list[dict[str, Any]] = []
    address = live.url.replace("/mcp", "/sse")
    async with Client(sse_client(address), mode="legacy", elicitation_callback=_answer) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        report = {"tools": tools, "calls": await _calls(client, page_url, progress), "progress": progress}
        report |= await _more(client)
    walk.check(report)
    walk.check_progress(report)
    walk.check_more(report)


@pytest.mark.requirement("ELI-01")
async def test_a_declined_question_is_an_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy", elicitation_callback=_decline) as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error


@pytest.mark.requirement("CAP-02")
async def test_a_client_that_cannot_be_asked_gets_a_clean_error_result(live: LiveServer) -> None:
    async with Client(live.url, mode="legacy") as client:
        result = await client.call_tool("ask_name", {})
    assert result.is_error
    assert isinstance(result.content[0], types.TextContent)
    assert "elicitation" in result.content[0].text
