"""Idempotency keys with real processes: a repeated request gets its first call, on every transport (G39)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client

from mcp_app.protocol.messages.idempotency import LONGEST_KEY, MEMBER
from tests.clients.raw_http import EventStream, Mcp, RawClient
from tests.clients.raw_modern import Modern
from tests.clients.raw_sse import HttpSseClient
from tests.clients.raw_wire import Answer
from tests.clients.stdio_child import Child
from tests.integration.calls.conftest import Installation, OpenSession, text_of
from tests.integration.calls.test_modern_calls import call as modern_request

pytestmark = [pytest.mark.process, pytest.mark.requirement("TOOL-29")]

# Sends a call of a tool with a key to one of two processes, and returns the answer.
Send = Callable[..., dict[str, Any]]
TOOLS = ("work_once", "work_here")
HTTP = ("2025-03-26", "2025-11-25", "2025-11-25 header", "2026-07-28", "2026-07-28 header")
FORGET = """
from mcp_app.database import clock
from mcp_app.models import KeyedCall
print(KeyedCall.objects.update(expires_at=clock.now(-1)))
"""
PURGE = "from mcp_app.execution.keyed.rows import purge; print(purge())"


def open_call(
    live: Installation,
    era: str,
    process: int,
    tool: str,
    key: Any,
    session: Mcp | None = None,
    **arguments: Any,
) -> EventStream | Answer:
    """Send a call with a key over Streamable HTTP, and return its open stream or its answer."""
    place = era.partition(" ")[2]
    if session is None:
        headers, body = modern_request(tool, **arguments)
    else:
        headers = session.headers()
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body = json.dumps({**message, "params": {"name": tool, "arguments": arguments}}).encode()
    if place:
        headers = {**headers, "Idempotency-Key": key}
    else:
        message = json.loads(body)
        meta = {**message["params"].get("_meta", {}), MEMBER: key}
        body = json.dumps({**message, "params": {**message["params"], "_meta": meta}}).encode()
    return RawClient("127.0.0.1", live.ports[process]).open_stream("POST", "/mcp", headers, body)


def answer_of(found: EventStream | Answer) -> dict[str, Any]:
    if isinstance(found, Answer):
        answered: dict[str, Any] = found.json()
        return answered
    with found:
        last: dict[str, Any] = found.messages(30)[-1]
        return last


@pytest.fixture(params=HTTP)
def keyed(
    request: pytest.FixtureRequest, live: Installation, open_session: OpenSession
) -> Callable[..., Any]:
    """Return a function that opens a call at a process. Each legacy call has its own session."""
    version = request.param.partition(" ")[0]

    def opened(tool: str, key: Any, process: int = 0, **arguments: Any) -> EventStream | Answer:
        session = None if version == "2026-07-28" else open_session(version, process)
        return open_call(live, request.param, process, tool, key, session, **arguments)

    return opened


@pytest.mark.parametrize("tool", TOOLS)
def test_repeated_request_gets_the_kept_answer_in_another_process(
    live: Installation, keyed: Callable[..., Any], nonce: str, tool: str
) -> None:
    arguments = {"nonce": nonce, "steps": 1, "delay": 0.01}
    answers = [answer_of(keyed(tool, nonce, process, **arguments)) for process in (0, 1, 0)]
    # The text names the run of the tool.
    assert len({text_of(each) for each in answers}) == 1
    assert len(live.lines(nonce, "start")) == 1
    refused = answer_of(keyed(tool, nonce, 1, **{**arguments, "steps": 2}))["error"]
    assert (refused["code"], refused["data"]["refusal"]) == (-32602, "key_reused")
    assert len(live.lines(nonce, "start")) == 1
    another = answer_of(keyed(tool, f"{nonce}-2", **arguments))
    assert text_of(another) != text_of(answers[0])
    assert len(live.lines(nonce, "start")) == 2


@pytest.mark.parametrize("tool", TOOLS)
def test_request_after_a_lost_connection_attaches_to_the_running_call(
    live: Installation, keyed: Callable[..., Any], nonce: str, tool: str
) -> None:
    arguments = {"nonce": nonce, "steps": 15, "delay": 0.1}
    lost = keyed(tool, nonce, 0, **arguments)
    live.started(nonce, "alive")
    lost.cut()
    assert text_of(answer_of(keyed(tool, nonce, 1, **arguments))).startswith(nonce)
    assert len(live.lines(nonce, "start")) == 1
    assert not live.lines(nonce, "stopped")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("transport", ["HTTP+SSE", "stdio"])
def test_key_works_over_the_other_transports(
    live: Installation, nonce: str, transport: str, tool: str
) -> None:
    params = {
        "name": tool,
        "arguments": {"nonce": nonce, "steps": 1, "delay": 0.01},
        "_meta": {MEMBER: nonce},
    }
    if transport == "stdio":
        with Child(live.installation) as child:
            child.initialize()
            found = [text_of(child.call(number, "tools/call", params)) for number in (1, 2)]
            child.end()
    else:
        with HttpSseClient(live.ports) as old:
            old.open()
            old.initialize()
            found = [text_of(old.call("tools/call", params, process=process)) for process in (0, 1)]
    assert len(set(found)) == 1
    assert len(live.lines(nonce, "start")) == 1


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_official_client_sends_a_key(live: Installation, nonce: str, mode: str) -> None:
    texts = []
    for _ in range(2):
        async with Client(live.url, mode=mode) as client:
            arguments = {"nonce": nonce, "steps": 1}
            result: Any = await client.call_tool("work_here", arguments, meta={MEMBER: nonce})
            texts.append(result.content[0].text)
    assert len(set(texts)) == 1
    assert len(live.lines(nonce, "start")) == 1


def test_stopped_call_is_not_run_again(live: Installation, open_session: OpenSession, nonce: str) -> None:
    client, arguments = open_session(), {"nonce": nonce, "steps": 500}
    with open_call(live, "2025-11-25", 0, "work_here", nonce, client, **arguments) as stopped:
        live.started(nonce, "alive")
        client.notify("notifications/cancelled", {"requestId": 1})
        stopped.messages()
    live.started(nonce, "stopped")
    refused = answer_of(
        open_call(live, "2025-11-25", 1, "work_here", nonce, open_session(process=1), **arguments)
    )
    assert refused["result"]["isError"]
    assert refused["result"]["_meta"]["django-mcp/refusal"] == "outcome_unknown"
    assert len(live.lines(nonce, "start")) == 1


def test_members_of_a_batch_have_their_own_keys(
    live: Installation, open_session: OpenSession, nonce: str
) -> None:
    client = open_session("2025-03-26")
    arguments = {"nonce": nonce, "steps": 1, "delay": 0.01}
    batch = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {"name": "work_here", "arguments": arguments, "_meta": {MEMBER: key}},
        }
        for number, key in enumerate([nonce, nonce, f"{nonce}-2"], 50)
    ]
    found = client.client.open_stream("POST", client.path, client.headers(), json.dumps(batch).encode())
    assert isinstance(found, EventStream)
    with found:
        answers = found.messages()
    texts = [text_of(each) for each in answers if "result" in each]
    assert [len(texts), len(set(texts))] == [3, 2]
    assert len(live.lines(nonce, "start")) == 2


@pytest.mark.parametrize("key", ["", "x" * (LONGEST_KEY + 1), 7, None, "a\nb"])
def test_key_that_cannot_be_used_is_refused(
    live: Installation, open_session: OpenSession, nonce: str, key: Any
) -> None:
    found = open_call(live, "2025-11-25", 0, "work_here", key, open_session(), nonce=nonce, steps=1)
    assert answer_of(found)["error"]["code"] == -32602
    assert not live.lines(nonce)


def test_different_keys_in_header_and_meta_are_refused(
    live: Installation, open_session: OpenSession, nonce: str
) -> None:
    client = open_session()
    params = {"name": "work_here", "arguments": {"nonce": nonce, "steps": 1}, "_meta": {MEMBER: "one"}}
    message = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
    assert client.post(message, Idempotency_Key="two").json()["error"]["code"] == -32602
    assert not live.lines(nonce)


def test_expired_key_starts_a_new_call(live: Installation, open_session: OpenSession, nonce: str) -> None:
    for number in (1, 2):
        found = open_call(live, "2025-11-25", 0, "work_here", nonce, open_session(), nonce=nonce, steps=1)
        assert text_of(answer_of(found)).startswith(nonce)
        assert len(live.lines(nonce, "start")) == number
        assert int(live.shell(FORGET).splitlines()[-1]) >= 1
    assert int(live.shell(PURGE).splitlines()[-1]) >= 1


@pytest.mark.parametrize("tool", ["ask", "ask_here"])
def test_request_with_an_answer_continues_the_call_of_its_key(
    live: Installation, nonce: str, tool: str
) -> None:
    params: dict[str, Any] = {"name": tool, "arguments": {"nonce": nonce}}

    def send(process: int, **more: Any) -> dict[str, Any]:
        client = Modern(live.ports[process], capabilities={"elicitation": {"form": {}}}, meta={MEMBER: nonce})
        return client.request("tools/call", {**params, **more})

    first, again = send(0), send(1)
    assert first["resultType"] == again["resultType"] == "input_required"
    [question] = first["inputRequests"]
    given = {
        "requestState": first["requestState"],
        "inputResponses": {question: {"action": "accept", "content": {"value": "Ada"}}},
    }
    answers = [send(process, **given) for process in (1, 0)]
    assert [each["content"][0]["text"] for each in answers] == ["Hello, Ada!"] * 2
    assert len(live.lines(nonce, "end")) == 1


def test_repeated_request_is_answered_when_the_session_of_the_first_one_ends(
    live: Installation, open_session: OpenSession, nonce: str
) -> None:
    first, arguments = open_session(), {"nonce": nonce, "steps": 500}
    with open_call(live, "2025-11-25", 0, "work_once", nonce, first, **arguments):
        live.started(nonce, "alive")
        again = open_call(live, "2025-11-25", 1, "work_once", nonce, open_session(process=1), **arguments)
        assert isinstance(again, EventStream)
        with again:
            assert first.delete().status == 200
            [answer] = again.messages(15)[-1:]
    assert "cancelled" in json.dumps(answer)
    assert len(live.lines(nonce, "start")) == 1
