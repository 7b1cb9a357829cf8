"""No call path bypasses tool approval: single process, batch, shortcut or preset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app import tool
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot, entry_builder
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.sources.preset.source import fixed as fixed_in
from mcp_app.execution.calls.runner import Runner
from mcp_app.models import StoredSource, Tool
from mcp_app.protocol.messages import jsonrpc
from mcp_app.streams.gateway import Streams
from mcp_app.testing import Client
from tests.unit.handlers.desk import Desk, offer

ran: list[str] = []


async def at_once(text: str = "x") -> str:
    """Never waits, so the short cut may run it."""
    ran.append(text)
    return text


def in_thread(text: str = "x") -> str:
    """Runs in a thread."""
    ran.append(text)
    return text


FUNCTIONS = {"at_once": at_once, "in_thread": in_thread}
# Ways to require approval: in code, in the row of the tool, in the row of its preset.
MARKS = {
    "in code": ({"needs_approval": True}, {}, None),
    "in row": ({}, {"needs_approval": True}, None),
    "preset of tool marked in code": ({"needs_approval": True}, {}, {}),
    "preset of tool marked in row": ({}, {"needs_approval": True}, {}),
    "marked preset of ordinary tool": ({}, {}, {"needs_approval": True}),
    "with rate limit": ({"needs_approval": True, "calls_per_minute": 9}, {}, None),
}


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    ran.clear()
    yield
    assert ran == []


def entry_of(function: Any, mark: str) -> ToolEntry:
    options, base, preset = MARKS[mark]
    with registry.isolated() as alone:
        tool(**options)(function)  # type: ignore[arg-type]
        (definition,) = alone.tools.values()
    row = Tool(pk=1, name=function.__name__, source=StoredSource.CODE, **base)
    if preset is None:
        return entry_builder.tool(row, definition)
    fixed = {"text": "fixed"}
    made = Tool(pk=2, name="made", source=StoredSource.ADMIN, preset_of=row, fixed_arguments=fixed, **preset)
    return entry_builder.tool(made, fixed_in(definition, row, made))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_call_needing_approval_is_refused_on_every_path_without_worker(
    function: str, mark: str, streams: Streams
) -> None:
    entry = entry_of(FUNCTIONS[function], mark)
    assert (entry.needs_approval, entry.background) == (True, True)
    offer(tools=[entry])
    desk = Desk(streams)
    await desk.open()
    params = {"name": entry.name, "arguments": {}}
    answers = [await desk.request("tools/call", params)]
    members = [jsonrpc.Request(number, "tools/call", params) for number in (2, 3)]
    answers += await desk.batch(*members)
    assert len(answers) == 3
    for answer in answers:
        assert answer["result"]["isError"]
        assert "needs an administrator's approval" in answer["result"]["content"][0]["text"]
    asked = jsonrpc.Request(4, "tools/call", params)
    assert desk.process.dispatcher.quick(desk.asked(), asked, b"{}") is None


@pytest.mark.parametrize("redis", ["", "redis://nowhere.invalid"])
async def test_batch_member_needing_approval_is_refused_despite_worker(redis: str, streams: Streams) -> None:
    offer(tools=[entry_of(at_once, "in code")])
    desk = Desk(streams, redis_url=redis)
    await desk.open()
    (answer,) = await desk.batch(jsonrpc.Request(1, "tools/call", {"name": "at_once"}))
    assert "not in a batch" in answer["result"]["content"][0]["text"]


@pytest.mark.django_db(transaction=True)
async def test_four_eyes_tool_refuses_anonymous_caller(streams: Streams) -> None:
    with registry.isolated() as alone:
        tool(needs_approval=True, four_eyes=True)(at_once)
        (definition,) = alone.tools.values()
    offer(tools=[entry_builder.tool(Tool(pk=1, source=StoredSource.CODE), definition)])
    desk = Desk(streams, redis_url="redis://nowhere.invalid")
    await desk.open()
    answer = await desk.request("tools/call", {"name": "at_once"})
    assert "call it with an API key" in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("mark", MARKS)
def test_runner_refuses_unapproved_tool_at_once(mark: str) -> None:
    result = Runner(1).run_inline(entry_of(at_once, mark), {}, "2025-11-25")
    assert result["isError"]
    assert "needs approval" in result["content"][0]["text"]


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("function", FUNCTIONS)
async def test_runner_refuses_unapproved_tool_in_task(function: str, mark: str) -> None:
    nobody: Any = None
    result = await Runner(1).run_tool(entry_of(FUNCTIONS[function], mark), {}, nobody, nobody)
    assert result["isError"]


async def test_tool_list_marks_approval() -> None:
    with registry.isolated():
        tool(needs_approval=True, meta={"example.com/a": 1})(at_once)
        tool(in_thread)
        async with Client() as client:
            tools = {each["name"]: each.get("_meta") for each in await client.list_tools()}
    assert tools == {"at_once": {"example.com/a": 1, "django-mcp/needsApproval": True}, "in_thread": None}


async def test_approved_test_client_runs_tool() -> None:
    with registry.isolated():
        tool(needs_approval=True)(at_once)
        async with Client() as client:
            assert (await client.call_tool("at_once"))["isError"]
        async with Client(approved=True) as client:
            assert (await client.call_tool("at_once"))["content"][0]["text"] == "x"
            assert len(await client.list_tools()) == 1
    assert not hasattr(current_snapshot.current(), "_catalogue")
    assert ran.pop() == "x"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"four_eyes": True}, "need needs_approval=True"),
        ({"approval_minutes": 5}, "need needs_approval=True"),
        ({"needs_approval": True, "approval_minutes": 0}, "1 to 1440"),
        ({"needs_approval": True, "approval_minutes": 1441}, "1 to 1440"),
    ],
)
def test_invalid_approval_options_are_rejected_at_registration(options: dict[str, Any], says: str) -> None:
    with registry.isolated(), pytest.raises(DefinitionError, match=says):
        tool(**options)(at_once)
