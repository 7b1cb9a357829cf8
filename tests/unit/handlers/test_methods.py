"""Params of every method: errors are named with -32602 and have no side effects."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mcp_app import Context, ToolError
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.handlers import completion
from mcp_app.streams.base import SessionEnded, StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import prompt_entry, resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer

WRONG_TOKEN = {"progressToken": 1.5}


async def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


async def read_both(ctx: Context) -> str:
    """Read."""
    contents = await ctx.aread_resource("notes://today")
    return str(contents["contents"][0]["text"])


def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


def today() -> str:
    """Today."""
    return "sunny"


async def hanging(value: str, others: Any) -> list[str]:
    """Suggests never."""
    await asyncio.Event().wait()
    raise AssertionError


def everything() -> None:
    offer(
        tools=[tool_entry(add), tool_entry(read_both, 2), tool_entry(greet, 3, calls_per_minute=2)],
        prompts=[prompt_entry(greet)],
        resources=[resource_entry(today, "notes://today")],
    )


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("tools/call", {}, "'name'"),
        ("tools/call", {"name": 7}, "'name'"),
        ("tools/call", {"name": "add", "arguments": []}, "'arguments'"),
        ("tools/call", {"name": "add", "arguments": None}, "'arguments'"),
        ("tools/call", {"name": "x" * 999}, "Unknown tool: " + "x" * 128),
        ("tools/call", {"name": "greet", "arguments": {"name": "x"}, "_meta": WRONG_TOKEN}, "progressToken"),
        ("tools/list", {"cursor": 7}, "'cursor'"),
        ("tools/list", {"cursor": "nonsense"}, "cursor"),
        ("prompts/get", {}, "'name'"),
        ("prompts/get", {"name": "greet", "arguments": "x"}, "'arguments'"),
        ("prompts/get", {"name": "greet", "arguments": {"name": 1}}, "must be a string"),
        ("prompts/get", {"name": "greet"}, "Missing required"),
        ("prompts/get", {"name": "y" * 999}, "Unknown prompt: " + "y" * 128),
        ("resources/read", {}, "'uri'"),
        ("resources/read", {"uri": ""}, "'uri'"),
        ("resources/read", {"uri": ["x"]}, "'uri'"),
        ("resources/read", {"uri": "x" * 2049}, "2048"),
        ("resources/subscribe", {"uri": 1}, "'uri'"),
        ("resources/unsubscribe", {}, "'uri'"),
        ("logging/setLevel", {}, "'level'"),
        ("logging/setLevel", {"level": "loud"}, "'level'"),
        ("logging/setLevel", {"level": ["info"]}, "'level'"),
        ("logging/setLevel", {"level": {"info": 1}}, "'level'"),
        ("completion/complete", {}, "'ref'"),
        ("completion/complete", {"ref": {}, "argument": {}}, "'name' and 'value'"),
        ("completion/complete", {"ref": {}, "argument": {"name": "a", "value": "b"}}, "'ref'"),
    ],
)
async def test_invalid_params_are_named(method: str, params: dict[str, Any], words: str, desk: Desk) -> None:
    everything()
    error = (await desk.request(method, params))["error"]
    assert error["code"] == -32602
    assert words in error["message"]
    assert desk.status == 200
    assert not desk.session.in_flight


@pytest.mark.parametrize(
    "method", ["", "no/such", "tools/", "TOOLS/LIST", "x" * 5000, "notifications/initialized"]
)
async def test_unknown_method_error_is_short(method: str, desk: Desk) -> None:
    error = (await desk.request(method))["error"]
    assert error["code"] == -32601
    assert len(error["message"]) < 200


async def test_initialize_inside_session_is_rejected(desk: Desk) -> None:
    assert (await desk.request("initialize"))["error"]["code"] == -32600
    assert desk.status == 400


@pytest.mark.requirement("TOOL-09", "TOOL-10")
@pytest.mark.parametrize(("version", "is_result"), [("2025-11-25", True), ("2025-06-18", False)])
async def test_invalid_arguments_are_tool_error_since_2025_11_25(
    version: str, is_result: bool, desk: Desk
) -> None:
    everything()
    await desk.open(version)
    answer = await desk.request("tools/call", {"name": "add", "arguments": {"a": "x"}})
    assert ("result" in answer) == is_result
    if is_result:
        assert answer["result"]["isError"]
    else:
        assert answer["error"]["code"] == -32602


async def test_tool_prompt_and_resource_return_their_content(desk: Desk) -> None:
    everything()
    called = await desk.request("tools/call", {"name": "add", "arguments": {"a": 40}})
    assert called["result"]["structuredContent"] == {"result": 42}
    got = await desk.request("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
    assert got["result"]["messages"][0]["content"]["text"] == "Hello Ada"
    read = await desk.request("resources/read", {"uri": "notes://today"})
    assert read["result"]["contents"][0]["text"] == "sunny"
    through = await desk.request("tools/call", {"name": "read_both"})
    assert through["result"]["content"][0]["text"] == "sunny"


async def test_calls_per_minute_limit_applies_per_caller(desk: Desk) -> None:
    everything()
    params = {"name": "greet", "arguments": {"name": "x"}}
    answers = [await desk.request("tools/call", params) for _ in range(3)]
    assert ["error" in answer for answer in answers] == [False, False, True]
    desk.principal = Principal(key="other", name="other", permissions=frozenset())
    assert "isError" not in (await desk.request("tools/call", params))["result"]


@pytest.mark.requirement("RES-06", "TOOL-08")
async def test_entry_without_permission_is_indistinguishable_from_missing(desk: Desk) -> None:
    offer(
        tools=[tool_entry(add, permission="app.may")],
        prompts=[prompt_entry(greet, permission="app.may")],
        resources=[resource_entry(today, "notes://today", permission="app.may")],
    )
    asked: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "add", "arguments": {"a": 1}}),
        ("prompts/get", {"name": "greet", "arguments": {"name": "x"}}),
        ("resources/read", {"uri": "notes://today"}),
        ("resources/subscribe", {"uri": "notes://today"}),
    ]
    refused = [(await desk.request(*each))["error"] for each in asked]
    offer()
    assert refused == [(await desk.request(*each))["error"] for each in asked]
    assert [error["code"] for error in refused] == [-32602, -32602, -32002, -32002]


@pytest.mark.requirement("RES-08")
async def test_subscriptions_are_bounded_and_released(streams: Streams) -> None:
    desk = Desk(streams, max_subscriptions=1)
    await desk.open()
    offer(resources=[resource_entry(today, "notes://today"), resource_entry(greet_all, "notes://all", 2)])
    assert "result" in await desk.request("resources/subscribe", {"uri": "notes://today"})
    assert "result" in await desk.request("resources/subscribe", {"uri": "notes://today"})
    assert (await desk.request("resources/subscribe", {"uri": "notes://all"}))["error"]["code"] == -32602
    assert "result" in await desk.request("resources/unsubscribe", {"uri": "notes://today"})
    assert "result" in await desk.request("resources/unsubscribe", {"uri": "notes://never"})
    assert "result" in await desk.request("resources/subscribe", {"uri": "notes://all"})
    assert await streams.sessions.subscribers("notes://all") == [desk.session.id]


def greet_all() -> str:
    """All."""
    return "all"


@pytest.mark.requirement("LOG-01")
async def test_log_level_is_stored_with_session(desk: Desk) -> None:
    assert "result" in await desk.request("logging/setLevel", {"level": "error"})
    assert desk.session.log_level == "error"
    assert (await desk.streams.sessions.load(desk.session.id) or {})["log_level"] == "error"


async def test_hanging_completion_times_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "SECONDS", 0.0)
    offer(prompts=[prompt_entry(greet, completions={"name": hanging})])
    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": ""}}
    error = (await desk.request("completion/complete", params))["error"]
    assert (error["code"], error["message"]) == (-32603, "The completion took too long and was stopped.")


@pytest.mark.requirement("COMP-05")
async def test_completions_are_limited_per_principal(streams: Streams) -> None:
    desk = Desk(streams, completions_per_minute=2)
    await desk.open()
    offer(prompts=[prompt_entry(greet, completions={"name": ["Ada"]})])
    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "A"}}
    answers = [await desk.request("completion/complete", params, number) for number in range(3)]
    assert ["error" in answer for answer in answers] == [False, False, True]
    assert desk.status == 429
    assert "2 completions a minute" in answers[2]["error"]["message"]
    desk.principal = replace(LOOPBACK, key="somebody else")
    assert "result" in await desk.request("completion/complete", params, 4)


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        (StreamsUnavailable("10.0.0.1"), 503, "Redis"),
        (SessionEnded("x"), 404, "Session not found"),
        (KeyError("secret"), 200, "Internal error (incident "),
        (ToolError("own words"), 200, "Internal error (incident "),
    ],
)
async def test_handler_exception_becomes_error_without_secrets(
    fault: Exception, status: int, words: str, desk: Desk
) -> None:
    async def failing(*args: Any) -> None:
        raise fault

    desk.streams.sessions.update = failing  # type: ignore[method-assign, assignment]
    answer = await desk.request("logging/setLevel", {"level": "error"})
    assert desk.status == status
    assert words in answer["error"]["message"]
    assert "secret" not in str(answer)
    assert "10.0.0.1" not in str(answer)
