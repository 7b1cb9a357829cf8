"""Batches of revision 2025-03-26: arrays as requests, arrays or streams as responses."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import Answer, EventStream, Mcp
from tests.integration.http.conftest import OpenSession

PING = {"jsonrpc": "2.0", "method": "ping"}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
RESPONSE = {"jsonrpc": "2.0", "id": "nobody", "result": {}}


@pytest.fixture
def client(open_session: OpenSession) -> Mcp:
    return open_session("2025-03-26")


def calling(identifier: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


def open_batch(client: Mcp, batch: list[Any]) -> EventStream:
    stream = client.client.open_stream("POST", "/mcp", client.headers(), json.dumps(batch).encode())
    assert isinstance(stream, EventStream)
    return stream


@pytest.mark.requirement("BATCH-01", "BATCH-04")
def test_batch_returns_one_array_of_responses(client: Mcp) -> None:
    batch = [{**PING, "id": 1}, {**PING, "id": "1"}, calling(3, "test_simple_text"), NOTICE]
    answer = client.post(batch)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert sorted(str(member["id"]) for member in answer.json()) == ["1", "1", "3"]
    assert all("result" in member for member in answer.json())


@pytest.mark.requirement("BATCH-04", "T-POST-15")
def test_batch_with_notifications_is_answered_on_one_stream(client: Mcp) -> None:
    batch = [
        {**PING, "id": 1},
        calling(2, "steps", count=3, marker="a"),
        calling(3, "steps", count=3, marker="b"),
    ]
    with open_batch(client, batch) as stream:
        messages = stream.messages(5)
    assert sorted(message["id"] for message in messages if "id" in message) == [1, 2, 3]
    assert sum("method" in message for message in messages) == 6
    assert "id" in messages[-1]


@pytest.mark.requirement("BATCH-04", "T-RES-04")
def test_dropped_batch_stream_is_resumed(client: Mcp) -> None:
    batch = [calling(number, "steps", count=3, delay_seconds=0.05) for number in (1, 2)]
    stream = open_batch(client, batch)
    stream.message()
    position = stream.last_event_id
    stream.cut()
    with client.get_stream(position) as resumed:
        messages = resumed.messages()
    assert sorted(message["id"] for message in messages if "id" in message) == [1, 2]


@pytest.mark.requirement("BATCH-03", "T-POST-06")
@pytest.mark.parametrize("batch", [[NOTICE], [NOTICE, NOTICE], [RESPONSE], [RESPONSE, NOTICE]])
def test_batch_without_requests_returns_202(client: Mcp, batch: list[Any]) -> None:
    answer = client.post(batch)
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.requirement("BATCH-05")
def test_initialize_inside_a_batch_is_refused(client: Mcp) -> None:
    params = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    answer = client.post([begin, {**PING, "id": 2}])
    by_id = {member["id"]: member for member in answer.json()}
    assert by_id[1]["error"]["code"] == -32600
    assert by_id[2]["result"] == {}
    assert "mcp-session-id" not in answer.headers
    client.session = None
    alone = client.post([begin])
    assert alone.status == 400
    assert alone.json()["error"]["code"] == -32600


@pytest.mark.requirement("BATCH-06")
def test_invalid_batch_members_fail_individually(client: Mcp) -> None:
    wrong: list[Any] = [5, {"jsonrpc": "1.0", "id": 8, "method": "ping"}, {"jsonrpc": "2.0"}, [], None]
    answer = client.post([*wrong, {**PING, "id": 1}, {**PING, "id": 2, "method": "nope"}])
    assert answer.status == 200
    members = answer.json()
    assert sum(member.get("error", {}).get("code") == -32600 for member in members) == len(wrong)
    assert all(member.get("id", 0) is not None for member in members)
    assert {member["id"]: member for member in members if "id" in member}[1]["result"] == {}
    assert {member["id"]: member for member in members if "id" in member}[2]["error"]["code"] == -32601


@pytest.mark.requirement("BATCH-06", "SEC-07")
@pytest.mark.parametrize(("members", "status"), [(0, 400), (1, 200), (50, 200), (51, 400)])
def test_batch_size_is_limited(client: Mcp, members: int, status: int) -> None:
    answer = client.post([{**PING, "id": number} for number in range(members)])
    assert answer.status == status
    if status == 400:
        assert answer.json()["error"]["code"] == -32600
    else:
        assert len(answer.json()) == members


@pytest.mark.requirement("BATCH-08")
def test_batch_members_run_concurrently(client: Mcp) -> None:
    started = time.monotonic()
    batch = [calling(number, "hold", name=f"side-{number}", seconds=3) for number in range(6)]
    with open_batch(client, batch) as stream:
        assert len(stream.messages()) == 6
    assert time.monotonic() - started < 3 + SLACK


@pytest.mark.requirement("BATCH-08")
def test_cancelling_one_batch_member_keeps_the_others_running(client: Mcp) -> None:
    batch = [
        calling("short", "hold", name="short", seconds=0.8),
        calling("long", "hold", name="long", seconds=30),
    ]
    with open_batch(client, batch) as stream:
        client.notify("notifications/cancelled", {"requestId": "long"})
        by_id = {message["id"]: message for message in stream.messages(5)}
    assert by_id["short"]["result"]["content"][0]["text"] == "short"
    assert by_id["long"]["error"]["code"] == -32800


@pytest.mark.requirement("BATCH-02")
def test_server_sends_no_batches_in_streams_or_single_responses(client: Mcp) -> None:
    batch = [calling(number, "steps", count=4) for number in range(3)]
    with open_batch(client, batch) as stream:
        messages = stream.messages()
    assert all(isinstance(message, dict) for message in messages)
    assert sorted(message["id"] for message in messages if "id" in message) == [0, 1, 2]
    single = client.post({**PING, "id": 1})
    assert isinstance(single, Answer)
    assert single.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.requirement("RPC-03", "BATCH-08")
def test_duplicate_id_in_a_batch_is_refused_once(client: Mcp) -> None:
    batch = [calling(1, "hold", name="twice", seconds=0.3), calling(1, "hold", name="twice", seconds=0.3)]
    with open_batch(client, batch) as stream:
        outcomes = sorted("error" if "error" in message else "result" for message in stream.messages())
    assert outcomes == ["error", "result"]


@pytest.mark.requirement("BATCH-04", "T-RES-08")
def test_resumed_batch_replays_every_large_response(
    client: Mcp,
) -> None:
    size = 800_000  # Two responses exceed the size that a stream stores.
    batch = [calling(number, "large", size=size) for number in range(3)]
    stream = open_batch(client, [*batch, calling("slow", "steps", count=3, delay_seconds=0.2)])
    first = stream.message()
    position = stream.last_event_id
    stream.cut()
    with client.get_stream(position) as resumed:
        messages = [first, *resumed.messages()]
    answers = {message["id"]: message for message in messages if "id" in message}
    assert sorted(map(str, answers)) == ["0", "1", "2", "slow"]
    for number in range(3):
        assert len(answers[number]["result"]["content"][0]["text"]) == size
