"""Requests to the client: roots and sampling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS, Client, Fail
from tests.servers.live import LiveServer

HOME = {"uri": "file:///home/ada", "name": "home"}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Hello."}, "model": "m"}
USE = {"type": "tool_use", "id": "u1", "name": "search", "input": {"q": "x"}}
FOUND = {"type": "tool_result", "toolUseId": "u1", "content": [{"type": "text", "text": "found"}]}
SEARCH = {"name": "search", "description": "Searches.", "inputSchema": {"type": "object"}}
HELLO: dict[str, Any] = {"role": "user", "content": {"type": "text", "text": "Say hello."}}
EVERY_OPTION = {
    "system_prompt": "Be brief.",
    "temperature": 0.5,
    "stop_sequences": ["END"],
    "include_context": "none",
    "metadata": {"example.com/x": 1},
    "model_preferences": {"hints": [{"name": "small"}], "costPriority": 0, "speedPriority": 1},
}


def used(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def answered(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def roots_client(connect: Connect, version: str, roots: Any) -> Client:
    return connect(version, {"roots": {}}, replies={"roots/list": roots})


def sampler(connect: Connect, version: str, reply: Any, **capability: Any) -> Client:
    return connect(version, {"sampling": capability}, replies={"sampling/createMessage": reply})


@pytest.mark.requirement("ROOT-01")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", ["roots", "roots_in_thread"])
def test_roots_are_requested_on_the_stream_of_the_call(version: str, tool: str, connect: Connect) -> None:
    client = roots_client(connect, version, {"roots": [HOME]})
    with client.listen() as standalone:
        said = client.use(tool)
        assert standalone.quiet(0.1)
    assert [message["method"] for message in said.before] == ["roots/list"]
    assert json.loads(said.text) == [HOME]


@pytest.mark.requirement("ROOT-01")
def test_roots_are_not_requested_without_the_capability(client: Client) -> None:
    said = client.use("roots")
    assert (said.failed, said.before) == (True, [])
    assert "did not declare roots" in said.text


@pytest.mark.requirement("ROOT-01")
@pytest.mark.parametrize(("code", "words"), [(-32601, "Roots not supported"), (-32603, "Internal error")])
def test_roots_error_fails_the_tool(code: int, words: str, connect: Connect) -> None:
    said = roots_client(connect, VERSIONS[-1], Fail(code, words)).use("roots")
    assert said.failed
    assert words in said.text
    assert str(code) in said.text


@pytest.mark.requirement("ROOT-02")
@pytest.mark.parametrize("version", VERSIONS)
def test_roots_are_requested_again_after_a_change(version: str, connect: Connect) -> None:
    changing = [{"roots": [HOME]}, {"roots": []}]
    client = roots_client(connect, version, lambda _: changing.pop(0))
    assert json.loads(client.use("roots").text) == [HOME]
    assert client.notify("notifications/roots/list_changed").status == 202
    assert json.loads(client.use("roots").text) == []


@pytest.mark.requirement("ROOT-04")
@pytest.mark.parametrize(
    "root",
    [
        {"uri": "https://example.com/"},
        {"uri": "file:///home/../etc"},
        {"uri": "file:///home/%2e%2e/etc"},
        {"uri": "file:///home/%2E%2E"},
        {"uri": "file://server/share"},
        {"uri": 5},
        {"name": "none"},
        "file:///home",
        None,
    ],
)
def test_root_other_than_a_plain_file_uri_is_dropped(root: Any, connect: Connect) -> None:
    client = roots_client(connect, VERSIONS[-1], {"roots": [root, HOME]})
    assert json.loads(client.use("roots").text) == [HOME]


@pytest.mark.requirement("SAMP-01", "SAMP-07")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "reason", ["endTurn", "stopSequence", "maxTokens", "toolUse", "end_turn", "a new one", None]
)
def test_sampling_request_has_the_published_params(
    version: str, reason: str | None, connect: Connect
) -> None:
    answer = SAMPLED if reason is None else {**SAMPLED, "stopReason": reason}
    said = sampler(connect, version, answer).use("sample", options=EVERY_OPTION)
    (asked,) = said.told("sampling/createMessage")
    assert asked == {
        "messages": [HELLO],
        "maxTokens": 50,
        "systemPrompt": "Be brief.",
        "temperature": 0.5,
        "stopSequences": ["END"],
        "includeContext": "none",
        "metadata": {"example.com/x": 1},
        "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 0, "speedPriority": 1},
    }
    assert json.loads(said.text) == answer


@pytest.mark.requirement("SAMP-01")
def test_synchronous_tool_can_sample(client: Client, connect: Connect) -> None:
    assert json.loads(sampler(connect, str(client.version), SAMPLED).use("sample_in_thread").text) == SAMPLED
    refused = client.use("sample_in_thread")
    assert (refused.failed, refused.before) == (True, [])


@pytest.mark.requirement("SAMP-02")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("options", "capability"),
    [({"tools": [SEARCH]}, "tools"), ({"tool_choice": {"mode": "auto"}}, "tools")],
)
def test_sampling_tools_require_the_capability(
    version: str, options: dict[str, Any], capability: str, connect: Connect
) -> None:
    refused = sampler(connect, version, SAMPLED).use("sample", options=options)
    assert (refused.failed, refused.before) == (True, [])
    said = sampler(connect, version, SAMPLED, **{capability: {}}).use("sample", options=options)
    if version == "2025-11-25":
        (asked,) = said.told("sampling/createMessage")
        assert asked.get("tools", asked.get("toolChoice")) == next(iter(options.values()))
    else:
        assert (said.failed, said.before) == (True, [])


@pytest.mark.requirement("SAMP-02")
@pytest.mark.parametrize("context", ["thisServer", "allServers"])
def test_sampling_context_requires_the_capability(context: str, connect: Connect) -> None:
    options = {"include_context": context}
    refused = sampler(connect, VERSIONS[-1], SAMPLED).use("sample", options=options)
    assert (refused.failed, refused.before) == (True, [])
    said = sampler(connect, VERSIONS[-1], SAMPLED, context={}).use("sample", options=options)
    assert said.told("sampling/createMessage")[0]["includeContext"] == context


@pytest.mark.requirement("SAMP-03")
@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([HELLO, used([USE]), answered([FOUND])], True),
        ([HELLO, used(USE), answered(FOUND)], True),
        ([HELLO, used([USE])], False),
        ([HELLO, used([USE]), HELLO], False),
        ([HELLO, answered([FOUND])], False),
        ([HELLO, used([USE]), answered([FOUND, FOUND])], False),
        ([HELLO, used([USE]), answered([FOUND, HELLO["content"]])], False),
    ],
)
def test_sampling_tool_results_must_match_their_tool_uses(
    messages: list[dict[str, Any]], sent: bool, connect: Connect
) -> None:
    client = sampler(connect, VERSIONS[-1], SAMPLED, tools={})
    said = client.use("sample", messages=messages, options={"tools": [SEARCH]})
    assert said.failed != sent
    assert bool(said.before) == sent


@pytest.mark.requirement("SAMP-04")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "answer",
    [
        Fail(-1, "User rejected sampling request"),
        Fail(-32603, "Model is away"),
        {},
        {"role": "robot", "content": {"type": "text", "text": "x"}, "model": "m"},
        {"role": "assistant", "content": {"type": "poem"}, "model": "m"},
        {"role": "assistant", "content": "Hello", "model": "m"},
        {"role": "assistant", "content": {"type": "text", "text": "x"}},
    ],
    ids=str,
)
def test_sampling_error_or_invalid_response_fails_the_tool(
    version: str, answer: Any, connect: Connect
) -> None:
    said = sampler(connect, version, answer).use("sample")
    assert said.failed
    if isinstance(answer, Fail):
        assert answer["message"] in said.text


@pytest.mark.requirement("SAMP-04", "CAN-08")
@pytest.mark.parametrize("tool", ["sample", "sample_in_thread"])
def test_unanswered_sampling_request_is_cancelled_and_fails_the_tool(
    tool: str, connect_tight: Connect
) -> None:
    client = connect_tight(capabilities={"sampling": {}}, replies={"sampling/createMessage": lambda _: None})
    said = client.use(tool)
    question, withdrawn = said.before
    assert withdrawn["params"]["requestId"] == question["id"]
    assert said.failed
    assert "did not answer" in said.text


@pytest.mark.requirement("ROOT-01")
@pytest.mark.parametrize("version", VERSIONS)
def test_server_request_is_answered_at_another_process(
    version: str, connect: Connect, server: LiveServer
) -> None:
    client = roots_client(connect, version, {"roots": [HOME]})
    said = client.converse("tools/call", {"name": "roots"}, answer_at=client.at_port(server.ports[1]))
    assert json.loads(said.text) == [HOME]
