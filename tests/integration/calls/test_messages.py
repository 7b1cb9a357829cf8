"""Messages of a tool in a worker: progress, logs, requests to the client, and the response."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.raw_http import Answer, Mcp
from tests.integration.calls.conftest import Installation, OpenSession, start_call, text_of

pytestmark = pytest.mark.process

VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
ACCEPT = {"action": "accept", "content": {"value": "Ada"}}
SPOKEN = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello."}}


@pytest.mark.parametrize("tool", ["work", "work_in_thread"])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.requirement("PROG-01", "PROG-02", "LOG-01")
def test_progress_and_logs_of_a_worker_arrive_in_order(
    open_session: OpenSession, nonce: str, tool: str, version: str
) -> None:
    with start_call(open_session(version), tool, nonce=nonce, steps=5, delay=0.02) as stream:
        messages = stream.messages()
    progress = [each["params"] for each in messages if each.get("method") == "notifications/progress"]
    logged = [each["params"]["data"] for each in messages if each.get("method") == "notifications/message"]
    assert [each["progress"] for each in progress] == [1, 2, 3, 4, 5]
    assert {each["progressToken"] for each in progress} == {nonce}
    assert [line.split()[2] for line in logged] == ["1", "2", "3", "4", "5"]
    assert text_of(messages[-1]).startswith(nonce)
    assert messages[-1]["id"] == nonce


@pytest.mark.parametrize(
    ("tool", "method", "result", "said"),
    [
        ("ask", "elicitation/create", ACCEPT, "Hello, Ada!"),
        ("ask_in_thread", "elicitation/create", ACCEPT, "Hello, Ada!"),
        ("ask", "elicitation/create", {"action": "decline"}, "No name: decline."),
        ("sample", "sampling/createMessage", SPOKEN, "Hello."),
        ("sample_in_thread", "sampling/createMessage", SPOKEN, "Hello."),
    ],
)
@pytest.mark.requirement("T-POST-10", "ELI-01", "SAMP-01", "CEL-07")
def test_worker_request_is_answered_through_the_other_web_process(
    client: Mcp, elsewhere: Mcp, nonce: str, tool: str, method: str, result: dict[str, Any], said: str
) -> None:
    with start_call(client, tool, nonce=nonce) as stream:
        question = stream.message()
        assert question["method"] == method
        assert elsewhere.respond(question["id"], result).status == 202
        answer = stream.message()
    assert text_of(answer) == said


@pytest.mark.requirement("TOOL-12")
def test_call_past_its_timeout_is_a_tool_error_and_stops(live: Installation, client: Mcp, nonce: str) -> None:
    with start_call(client, "too_slow", nonce=nonce) as stream:
        answer = stream.messages()[-1]
    assert answer["result"]["isError"]
    assert "timed out after 1 seconds" in text_of(answer)
    assert live.started(nonce, "stopped")


@pytest.mark.requirement("T-RES-03", "SES-11")
def test_stream_cut_midway_is_resumed_without_loss(client: Mcp, elsewhere: Mcp, nonce: str) -> None:
    seen = []
    with start_call(client, "work", nonce=nonce, steps=20, delay=0.03) as stream:
        while len(seen) < 7:
            seen.append(stream.message())
        last = stream.last_event_id
        stream.cut()
    with elsewhere.get_stream(last) as stream:
        seen += stream.messages()
    steps = [
        int(each["params"]["data"].split()[2])
        for each in seen
        if each.get("method") == "notifications/message"
    ]
    assert steps == list(range(1, 21))
    assert [each["id"] for each in seen if "id" in each] == [nonce]


def test_finished_call_is_replayed_from_any_event_id(client: Mcp, elsewhere: Mcp, nonce: str) -> None:
    with start_call(client, "work", nonce=nonce, steps=2, delay=0.01) as stream:
        priming = stream.next()
        answer = stream.messages()[-1]
    assert priming is not None
    with elsewhere.get_stream(str(priming.id)) as stream:
        assert stream.messages()[-1] == answer
    with elsewhere.get_stream(stream.last_event_id) as after:
        assert after.messages() == []


@pytest.mark.requirement("RPC-03")
def test_repeated_post_attaches_to_the_running_call(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str
) -> None:
    with start_call(client, "work_once", nonce=nonce, steps=10, delay=0.05) as first:
        live.started(nonce)
        with start_call(elsewhere, "work_once", nonce=nonce, steps=10, delay=0.05) as second:
            answers = [first.messages()[-1], second.messages()[-1]]
    assert answers[0] == answers[1]
    assert len(live.lines(nonce, "start")) == 1


def test_equal_ids_of_different_types_are_two_calls(live: Installation, client: Mcp) -> None:
    for request_id in (7, "7"):
        params = {"name": "repeat", "arguments": {"value": repr(request_id)}}
        body = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params})
        found = client.client.open_stream("POST", client.path, client.headers(), body.encode())
        assert not isinstance(found, Answer)
        with found as stream:
            answer = stream.messages()[-1]
        assert answer["id"] == request_id
        assert type(answer["id"]) is type(request_id)
        assert text_of(answer) == repr(request_id)


def test_hostile_text_round_trips_through_the_worker(client: Mcp) -> None:
    hostile = "\0 ' \" \\ \u2028 😀 %s {} \x1b[31m"
    assert text_of(client.tool("repeat", value=hostile)) == hostile


def test_background_call_waits_for_the_next_worker(live: Installation, client: Mcp, nonce: str) -> None:
    worker = live.worker_processes[0]
    worker.stop()
    with start_call(client, "work", nonce=nonce, steps=2, delay=0.01) as stream:
        worker.start(live.environment)
        assert text_of(stream.messages(30)[-1]).startswith(nonce)
    live.wait_until_ready()
