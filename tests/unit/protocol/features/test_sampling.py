from __future__ import annotations

from typing import Any

import pytest

from mcp_app.protocol.errors import InvalidAnswer
from mcp_app.protocol.features.sampling import build_params, check_messages, check_result, needed_capabilities
from tests.samples.published_schema import problems


def text(role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": "hi"}}


def use(*ids: str, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "tool_use", "id": i, "name": "t", "input": {}} for i in ids]}


def results(*ids: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "tool_result", "toolUseId": i, "content": []} for i in ids]}


@pytest.mark.requirement("SAMP-01")
def test_text_becomes_one_user_message() -> None:
    params = build_params("hi", max_tokens=10)
    assert params == {"messages": [text()], "maxTokens": 10}
    assert problems("2024-11-05", "CreateMessageRequest", _request(params)) == []


def _request(params: dict[str, Any]) -> dict[str, Any]:
    return {"method": "sampling/createMessage", "params": params}


@pytest.mark.requirement("SAMP-01", "SAMP-02")
def test_options_have_published_names() -> None:
    params = build_params(
        [text()],
        max_tokens=1,
        system_prompt="be kind",
        model_preferences={"hints": [{"name": "x"}], "costPriority": 0, "speedPriority": 1},
        include_context="none",
        temperature=0.5,
        stop_sequences=["x"],
        metadata={"a": 1},
        tools=[{"name": "t", "inputSchema": {"type": "object"}}],
        tool_choice={"mode": "auto"},
    )
    assert problems("2025-11-25", "CreateMessageRequestParams", params) == []
    assert build_params("hi", max_tokens=1, temperature=None) == build_params("hi", max_tokens=1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"include_context": "some"}, "include_context"),
        ({"tool_choice": {"mode": "x"}}, "tool_choice"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tools": {}}, "tools"),
        ({"model_preferences": {"costPriority": 2}}, "model_preferences"),
        ({"model_preferences": {"speedPriority": True}}, "model_preferences"),
        ({"model_preferences": []}, "model_preferences"),
        ({"systemPrompt": "x"}, "no option 'systemPrompt'"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        build_params("hi", **{"max_tokens": 1, **options})


@pytest.mark.requirement("SAMP-02")
@pytest.mark.parametrize(
    ("params", "needed"),
    [
        ({}, ("sampling",)),
        ({"includeContext": "none"}, ("sampling",)),
        ({"includeContext": "thisServer"}, ("sampling", "sampling_context")),
        ({"tools": []}, ("sampling", "sampling_tools")),
        ({"toolChoice": {}}, ("sampling", "sampling_tools")),
    ],
)
def test_required_capabilities_follow_parameters(params: dict[str, Any], needed: tuple[str, ...]) -> None:
    assert needed_capabilities(params) == needed


@pytest.mark.requirement("SAMP-03")
@pytest.mark.parametrize(
    "messages",
    [
        [text()],
        [text(), text("assistant"), text()],
        [text(), use("a"), results("a")],
        [text(), use("a", "b"), results("b", "a"), text("assistant"), use("c"), results("c")],
    ],
)
def test_conversation_with_answered_tool_uses_is_accepted(messages: list[dict[str, Any]]) -> None:
    check_messages(messages)


@pytest.mark.requirement("SAMP-03")
@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([], "at least one message"),
        (["hi"], "Message 1 must be an object"),
        ([{"role": "system", "content": text()["content"]}], "Message 1 must be an object"),
        ([{"role": "user"}], "Message 1 has content"),
        ([{"role": "user", "content": "hi"}], "Message 1 has content"),
        ([{"role": "user", "content": {"type": "video"}}], "Message 1 has content"),
        ([{"role": "user", "content": {"type": "text"}}], "Message 1 has content"),
        ([text(), use("a")], "not answered"),
        ([text(), use("a"), text()], "Message 3 must answer"),
        ([text(), use("a", "b"), results("a")], "Message 3 must answer"),
        ([text(), use("a"), results("a", "a")], "Message 3 must answer"),
        ([text(), use("a"), results("b")], "Message 3 must answer"),
        ([results("a")], "Message 1 must answer"),
        ([use("a", role="user"), results("a")], "role 'assistant'"),
        ([use("a"), results("a", role="assistant")], "role 'user'"),
        (
            [use("a"), {"role": "user", "content": [*results("a")["content"], text()["content"]]}],
            "mixes tool results",
        ),
    ],
)
def test_invalid_conversation_is_rejected_by_message_number(messages: list[Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_messages(messages)


@pytest.mark.requirement("SAMP-07")
@pytest.mark.parametrize(
    "reason", ["endTurn", "end_turn", "stopSequence", "maxTokens", "toolUse", "anything"]
)
def test_any_stop_reason_is_accepted(reason: str) -> None:
    result = {**text("assistant"), "model": "m", "stopReason": reason}
    assert check_result(result) is result
    assert check_result({**text("assistant"), "model": "m"})


@pytest.mark.requirement("SAMP-04")
@pytest.mark.parametrize(
    "result",
    [
        {},
        {**text("assistant")},
        {**text("system"), "model": "m"},
        {"role": "assistant", "content": None, "model": "m"},
        {"role": "assistant", "content": "hi", "model": "m"},
        {**text("assistant"), "model": 1},
        {**text("assistant"), "model": "m", "stopReason": 1},
    ],
)
def test_invalid_sampling_result_raises_invalid_answer(result: dict[str, Any]) -> None:
    with pytest.raises(InvalidAnswer):
        check_result(result)
