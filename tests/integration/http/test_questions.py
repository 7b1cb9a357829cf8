"""Requests to the client: sent by one process, answered through any, once, in time, by the same session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import EventStream, Mcp
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer

ACCEPTED = {"action": "accept", "content": {"value": "Ada"}}
Outcome = dict[str, Any]


def call(name: str) -> dict[str, Any]:
    return {"name": name, "arguments": {}}


def text_of(stream: EventStream) -> str:
    message = stream.messages()[-1]
    return str(message["result"]["content"][0]["text"])


# Tool, method of the request, the client's result, and the text that the tool returns.
QUESTIONS: tuple[tuple[str, str, Outcome, str], ...] = (
    ("welcome", "elicitation/create", ACCEPTED, "Hello, Ada!"),
    ("greet_from_thread", "elicitation/create", ACCEPTED, "Hello, Ada!"),
    ("welcome", "elicitation/create", {"action": "decline"}, "No name: decline."),
    ("welcome", "elicitation/create", {"action": "cancel"}, "No name: cancel."),
    ("visit", "elicitation/create", {"action": "accept"}, "accept"),
    (
        "ask_model",
        "sampling/createMessage",
        {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hi"}},
        "Hi",
    ),
    ("list_roots", "roots/list", {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}, "file:///a, file:///b"),
)  # fmt: skip


@pytest.mark.requirement("T-POST-10", "T-POST-16", "SES-11")
@pytest.mark.parametrize(("asked_at", "answered_at"), [(0, 1), (1, 0), (0, 0)])
@pytest.mark.parametrize(("tool", "method", "result", "text"), QUESTIONS)
def test_server_request_is_answered_through_any_process(
    live: LiveServer, open_session: OpenSession, asked_at: int, answered_at: int,
    tool: str, method: str, result: Outcome, text: str,
) -> None:  # fmt: skip
    client = open_session(process=asked_at)
    with (
        closing(client.via(live.ports[answered_at])) as answering,
        client.open_call("tools/call", call(tool)) as stream,
    ):
        question = stream.message()
        assert question["method"] == method
        assert answering.respond(question["id"], result).status == 202
        assert text_of(stream) == text


@pytest.mark.requirement("T-POST-10", "T-RES-03", "T-POST-13")
def test_missed_server_request_is_replayed_and_answered_elsewhere(live: LiveServer, client: Mcp) -> None:
    with client.open_call("tools/call", call("welcome")) as stream:
        position = str(stream.next().id)  # type: ignore[union-attr]
        stream.cut()
    elsewhere = client.via(live.ports[1])
    with closing(elsewhere), elsewhere.get_stream(position) as resumed:
        question = resumed.message()
        elsewhere.respond(question["id"], ACCEPTED)
        assert text_of(resumed) == "Hello, Ada!"


@pytest.mark.requirement("T-POST-10", "T-POST-09")
def test_only_the_first_response_to_a_server_request_counts(live: LiveServer, client: Mcp) -> None:
    elsewhere = client.via(live.ports[1])
    with closing(elsewhere), client.open_call("tools/call", call("welcome")) as stream:
        question = stream.message()
        assert elsewhere.respond(question["id"], ACCEPTED).status == 202
        late = {"action": "accept", "content": {"value": "Mallory"}}
        assert client.respond(question["id"], late).status == 202
        assert text_of(stream) == "Hello, Ada!"


@pytest.mark.requirement("T-POST-09", "SEC-06")
def test_another_session_cannot_answer_a_server_request(open_session: OpenSession) -> None:
    owner, stranger = open_session(), open_session(process=1)
    with owner.open_call("tools/call", call("welcome")) as stream:
        question = stream.message()
        assert (
            stranger.respond(question["id"], {"action": "accept", "content": {"value": "Mallory"}}).status
            == 202
        )
        assert stream.quiet(0.3)
        owner.respond(question["id"], ACCEPTED)
        assert text_of(stream) == "Hello, Ada!"


@pytest.mark.requirement("T-POST-09", "RPC-05")
@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -1, "message": "User rejected sampling request"}},
        {"result": {"action": "sideways"}},
        {"result": {"action": "accept"}},
        {"result": {"action": "accept", "content": {"value": 5}}},
        {"result": {}},
    ],
    ids=["error", "unknown action", "no content", "wrong content", "empty"],
)
def test_error_or_invalid_response_fails_only_the_tool(client: Mcp, answer: Outcome) -> None:
    with client.open_call("tools/call", call("welcome")) as stream:
        question = stream.message()
        assert client.post({"jsonrpc": "2.0", "id": question["id"], **answer}).status == 202
        assert stream.messages()[-1]["result"]["isError"] is True
    assert client.call("ping")["result"] == {}


LACKING: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("welcome", {}, "2025-11-25"),
    ("welcome", {"elicitation": {}}, "2025-03-26"),
    ("visit", {"elicitation": {}}, "2025-11-25"),
    ("visit", {"elicitation": {"form": {}, "url": {}}}, "2025-06-18"),
    ("ask_model", {"elicitation": {}}, "2025-11-25"),
    ("ask_model_with_tools", {"sampling": {}}, "2025-11-25"),
    ("ask_model_with_tools", {"sampling": {"tools": {}}}, "2025-06-18"),
    ("list_roots", {}, "2025-11-25"),
)


@pytest.mark.requirement("CAP-02", "VER-10")
@pytest.mark.parametrize(("tool", "capabilities", "version"), LACKING)
def test_client_is_not_asked_for_undeclared_capabilities(
    open_session: OpenSession, tool: str, capabilities: dict[str, Any], version: str
) -> None:
    client = open_session(version, capabilities=capabilities)
    answer = client.tool(tool)
    assert answer["result"]["isError"] is True
    assert not client.received


ASKED: tuple[tuple[str, str, dict[str, Any], Callable[[dict[str, Any]], object]], ...] = (
    ("welcome", "2025-06-18", {"elicitation": {}}, lambda params: "mode" not in params),
    ("welcome", "2025-11-25", {"elicitation": {}}, lambda params: params.get("mode", "form") == "form"),
    ("visit", "2025-11-25", {"elicitation": {"url": {}}}, lambda params: params["mode"] == "url"),
    ("ask_model", "2025-03-26", {"sampling": {}}, lambda params: "tools" not in params),
    ("list_roots", "2025-03-26", {"roots": {}}, lambda params: params in (None, {})),
)


@pytest.mark.requirement("CAP-02", "VER-10", "GEN-01")
@pytest.mark.parametrize(("tool", "version", "capabilities", "holds"), ASKED)
def test_server_request_has_the_form_of_the_negotiated_revision(
    open_session: OpenSession, tool: str, version: str, capabilities: dict[str, Any],
    holds: Callable[[dict[str, Any]], object],
) -> None:  # fmt: skip
    client = open_session(version, capabilities=capabilities)
    with client.open_call("tools/call", call(tool)) as stream:
        question = stream.message()
        assert holds(question.get("params"))
        client.post({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}})
        assert stream.messages()[-1]["result"]["isError"] is True


@pytest.mark.requirement("LIFE-09")
@pytest.mark.parametrize("tool", ["welcome", "greet_from_thread"])
def test_unanswered_server_request_is_cancelled_and_fails_the_tool(
    open_strict: OpenSession, key: str, tool: str
) -> None:
    client = open_strict("2025-06-18", token=key)
    with client.open_call("tools/call", call(tool)) as stream:
        question, withdrawn, answer = stream.messages(4)
        assert withdrawn["method"] == "notifications/cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert answer["result"]["isError"] is True
        assert client.respond(question["id"], ACCEPTED).status == 202


@pytest.mark.requirement("LIFE-04")
@pytest.mark.parametrize("confirmed_at", [0, 1])
@pytest.mark.parametrize(("tool", "method", "result", "text"), [QUESTIONS[0], QUESTIONS[1], *QUESTIONS[-2:]])
def test_server_request_waits_for_initialized_at_any_process(
    live: LiveServer, open_session: OpenSession, confirmed_at: int,
    tool: str, method: str, result: Outcome, text: str,
) -> None:  # fmt: skip
    client = open_session(confirm=False)
    with (
        closing(client.via(live.ports[confirmed_at])) as other,
        client.open_call("tools/call", call(tool)) as stream,
    ):
        stream.next()  # The priming event with an id to resume from.
        assert stream.quiet(0.3)
        assert other.notify("notifications/initialized").status == 202
        question = stream.message()
        assert question["method"] == method
        assert other.respond(question["id"], result).status == 202
        assert text_of(stream) == text


@pytest.mark.requirement("LIFE-04")
def test_unconfirmed_session_gets_an_error_instead_of_a_server_request(
    open_session: OpenSession,
) -> None:
    client = open_session(confirm=False)
    with client.open_call("tools/call", call("welcome")) as stream:
        (answer,) = stream.messages(30)
    assert "notifications/initialized" in answer["result"]["content"][0]["text"]
    assert answer["result"]["isError"]
