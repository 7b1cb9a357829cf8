"""The functions of the demo catalogue and their published descriptions."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mcp_app import ToolError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.contrib.demo import mcp
from mcp_app.execution.questions.questions import Answer

TOOLS = ("echo", "add", "calculate", "get_timestamp", "count", "burn", "ask_name")


class Caller:
    """A stand-in for a Context: records progress and returns a scripted answer."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []
        self.reported: list[tuple[float, float | None, str | None]] = []

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.reported.append((progress, total, message))

    async def aelicit(self, message: str, form: Any) -> Answer:
        self.asked.append((message, form))
        assert self.answer is not None
        return self.answer


async def test_echo_returns_text_unchanged() -> None:
    for text in ("", "hello", " \n☃\x00 "):
        assert await mcp.echo(text) == text


async def test_add_returns_sum() -> None:
    assert await mcp.add(2, -5) == -3


async def test_calculate_returns_value_as_text() -> None:
    assert await mcp.calculate("(2 + 3) * 4") == "20"


@pytest.mark.parametrize("expression", ["9**9**9", "1/0", "import os", ""])
async def test_calculate_raises_tool_error_for_invalid_expression(expression: str) -> None:
    with pytest.raises(ToolError):
        await mcp.calculate(expression)


async def test_get_timestamp_returns_current_utc_time() -> None:
    told = datetime.fromisoformat(await mcp.get_timestamp())
    assert told.utcoffset() == timedelta(0)
    assert abs(told - datetime.now(UTC)) < timedelta(seconds=2)


async def test_count_reports_each_step_and_returns() -> None:
    caller = Caller()
    assert await mcp.count(caller, to=3, delay_seconds=0) == "counted to 3"
    assert caller.reported == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")]


def test_burn_takes_requested_time() -> None:
    started = time.monotonic()
    assert mcp.burn(0.05).startswith("burned 0.05 seconds")
    assert time.monotonic() - started >= 0.05


async def test_ask_name_greets_with_answer() -> None:
    caller = Caller(Answer("accept", {"name": "Ada"}))
    assert await mcp.ask_name(caller) == "Hello, Ada!"
    assert caller.asked == [("What is your name?", mcp.Person)]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_ask_name_without_answer_raises_tool_error(action: str) -> None:
    with pytest.raises(ToolError, match="No name was given"):
        await mcp.ask_name(Caller(Answer(action)))


def test_prompts_contain_their_arguments_unformatted() -> None:
    assert "Python code" in mcp.code_review("print(1)", "Python")
    assert mcp.code_review("{0} %s {{x}}").endswith("{0} %s {{x}}")
    assert "the last hour" in mcp.analyze_logs("the last hour")
    assert "severity" not in mcp.analyze_logs("the last hour")
    assert "severity error or worse" in mcp.analyze_logs("the last hour", "error")


def test_server_info_describes_this_process() -> None:
    info = json.loads(mcp.server_info())
    assert set(info) == {"name", "version", "uptime", "python", "pid"}
    assert info["pid"] == os.getpid()
    assert info["uptime"] >= 0


def test_greeting_contains_name() -> None:
    assert mcp.greeting("Ada") == "Hello, Ada!"


@pytest.mark.parametrize("name", TOOLS)
def test_tool_has_title_description_and_hints(name: str) -> None:
    wire = registry.tools[name].wire
    assert wire["title"]
    assert len(wire["description"]) > 40
    assert {"readOnlyHint", "idempotentHint", "openWorldHint"} <= set(wire["annotations"])
    assert all(member["description"] for member in wire["inputSchema"].get("properties", {}).values())


def test_slow_tools_run_in_background() -> None:
    assert [name for name in TOOLS if registry.tools[name].background] == ["count", "burn"]


@pytest.mark.parametrize(
    ("name", "arguments", "required"),
    [
        ("echo", {"text": "string"}, ["text"]),
        ("add", {"a": "integer", "b": "integer"}, ["a", "b"]),
        ("calculate", {"expression": "string"}, ["expression"]),
        ("get_timestamp", {}, []),
        ("count", {"to": "integer", "delay_seconds": "number"}, ["to"]),
        ("burn", {"seconds": "number"}, ["seconds"]),
        ("ask_name", {}, []),
    ],
)
def test_tool_schema_has_contract_arguments(name: str, arguments: dict, required: list) -> None:
    schema = registry.tools[name].wire["inputSchema"]
    assert {key: member["type"] for key, member in schema.get("properties", {}).items()} == arguments
    assert schema.get("required", []) == required
