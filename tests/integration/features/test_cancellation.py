"""Cancelling running calls from any process."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import EventStream
from tests.integration.features.conftest import Connect
from tests.integration.features.conversation import VERSIONS, Client
from tests.servers.live import LiveServer, eventually

CANCELLED = {"code": -32800, "message": "Request cancelled"}


def begin(client: Client, tool: str) -> tuple[EventStream, int, str]:
    """Start a call and return its stream, id and mark."""
    mark = secrets.token_hex(4)
    arguments = {"seconds": 30, "mark": mark}
    stream = client.open_call("tools/call", {"name": tool, "arguments": arguments})
    first = client.judge(stream.message())
    assert first["method"] == "notifications/message"
    return stream, client.next_id, mark


def marks(client: Client) -> list[str]:
    found: list[str] = json.loads(client.use("stopped").text)["marks"]
    return found


def end_of(client: Client, stream: EventStream) -> dict[str, Any]:
    (message,) = stream.messages()
    error: dict[str, Any] = client.judge(message)["error"]
    return error


@pytest.mark.requirement("CAN-01", "CAN-02", "CAN-04")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", ["wait", "wait_in_thread"])
@pytest.mark.parametrize("process", [0, 1])
def test_cancellation_at_any_process_stops_the_call_and_ends_the_stream(
    version: str, tool: str, process: int, connect: Connect, server: LiveServer
) -> None:
    client = connect(version)
    stream, request_id, mark = begin(client, tool)
    begun = time.monotonic()
    with stream:
        params = {"requestId": request_id, "reason": "changed my mind"}
        assert client.at_port(server.ports[process]).notify("notifications/cancelled", params).status == 202
        error = end_of(client, stream)
    assert error["code"] == -32800
    assert error["message"].startswith("Request cancelled")
    eventually(lambda: mark in marks(client), 2)
    assert time.monotonic() - begun < 2 + SLACK


@pytest.mark.requirement("CAN-02")
@pytest.mark.parametrize("process", [0, 1])
def test_cancelled_stream_ends_without_response_if_configured(
    process: int, connect_tight: Connect, tight: LiveServer
) -> None:
    client = connect_tight()
    stream, request_id, _ = begin(client, "wait")
    with stream:
        params = {"requestId": request_id}
        assert client.at_port(tight.ports[process]).notify("notifications/cancelled", params).status == 202
        assert stream.messages() == []
    # A client that resumes the stream gets no response either.
    with client.at_port(tight.ports[process]).get_stream(stream.last_event_id) as resumed:
        assert resumed.messages() == []


@pytest.mark.requirement("CAN-03")
@pytest.mark.parametrize(
    "params",
    [
        {"requestId": 987654},
        {"requestId": "unknown", "reason": "x"},
        {"requestId": None},
        {"requestId": {"id": 1}},
        {"requestId": 1.5},
        {"requestId": True},
        {"reason": "none"},
        {},
        None,
    ],
)
def test_invalid_cancellation_is_accepted_and_ignored(params: dict[str, Any] | None, client: Client) -> None:
    assert client.notify("notifications/cancelled", params).status == 202
    assert client.use("plain_text").text == "plain"


@pytest.mark.requirement("CAN-03")
def test_cancelling_a_finished_request_changes_nothing(client: Client) -> None:
    assert client.use("plain_text").text == "plain"
    assert client.notify("notifications/cancelled", {"requestId": client.next_id}).status == 202
    assert client.use("plain_text").text == "plain"


@pytest.mark.requirement("CAN-01")
@pytest.mark.parametrize("wrong", [lambda found: str(found), lambda found: found + 1])
def test_cancellation_matches_the_id_by_value_and_type(wrong: Any, client: Client) -> None:
    stream, request_id, mark = begin(client, "wait")
    with stream:
        client.notify("notifications/cancelled", {"requestId": wrong(request_id)})
        assert stream.quiet(0.2)
        client.notify("notifications/cancelled", {"requestId": request_id})
        assert end_of(client, stream)["code"] == -32800
    assert mark in marks(client)


@pytest.mark.requirement("CAN-01")
def test_cancellation_in_another_session_is_ignored(connect: Connect) -> None:
    client, other = connect(), connect()
    stream, request_id, mark = begin(client, "wait")
    with stream:
        assert other.notify("notifications/cancelled", {"requestId": request_id}).status == 202
        assert stream.quiet(0.2)
        client.notify("notifications/cancelled", {"requestId": request_id})
        assert end_of(client, stream)["code"] == -32800
    assert mark in marks(client)


@pytest.mark.requirement("CAN-10")
def test_cancellation_racing_with_completion_has_one_outcome(connect: Connect, server: LiveServer) -> None:
    client = connect()
    outcomes: Counter[str] = Counter()
    for run in range(120):
        sender = client.at_port(server.ports[run % 2]) if run < 2 else client.beside[run % 2]
        seconds = 0.001 * (run % 30)
        params = {"name": "wait", "arguments": {"seconds": seconds, "mark": f"race {run}"}}
        with client.open_call("tools/call", params) as stream:
            sender.notify("notifications/cancelled", {"requestId": client.next_id})
            messages = [client.judge(found, "tools/call") for found in stream.messages()]
        (answer,) = [found for found in messages if "method" not in found]
        assert messages[-1] is answer
        outcomes[str(answer.get("error", {}).get("code", "finished"))] += 1
    assert outcomes.keys() == {"finished", "-32800"}, outcomes
    assert client.use("plain_text").text == "plain"


@pytest.mark.requirement("CAN-08", "ELI-14")
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_server_request_is_cancelled_when_its_call_times_out(version: str, connect: Connect) -> None:
    client = connect(version, {"elicitation": {}}, replies={"elicitation/create": lambda _: None})
    said = client.use("ask_with_deadline")
    (question, withdrawn) = said.before
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]
    assert said.failed
    assert "timed out" in said.text
    late = client.respond(question["id"], {"action": "accept", "content": {"value": True}})
    assert late.status == 202


@pytest.mark.requirement("CAN-08")
def test_cancelling_a_call_cancels_its_server_request(connect: Connect) -> None:
    client = connect(capabilities={"sampling": {}})
    with client.open_call("tools/call", {"name": "sample_in_thread", "arguments": {}}) as stream:
        question = client.judge(stream.message())
        client.notify("notifications/cancelled", {"requestId": client.next_id})
        withdrawn, answer = [client.judge(found) for found in stream.messages()]
    assert withdrawn["params"]["requestId"] == question["id"]
    assert answer["error"]["code"] == -32800
