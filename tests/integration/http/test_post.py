"""POST to the MCP endpoint: accepted requests, refusals, and the form of the response."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import Answer, EventStream, Mcp, RawClient, is_stream
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer, eventually

BOTH = "application/json, text/event-stream"
LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")
MIB = 1024 * 1024


def ping(client: Mcp) -> dict[str, Any]:
    return client.request_message("ping")


def post_with(client: Mcp, headers: dict[str, str | None]) -> Answer:
    """POST a ping with some headers replaced, or left out where None."""
    sent = {**client.headers(), **headers}
    kept = {name: value for name, value in sent.items() if value is not None}
    return client.client.request("POST", "/mcp", kept, json.dumps(ping(client)).encode())


@pytest.mark.requirement("T-POST-01")
def test_one_path_accepts_post_get_and_delete(client: Mcp) -> None:
    assert client.post(ping(client)).status == 200
    with client.get_stream() as stream:
        assert stream.status == 200
    assert client.delete().status == 200


@pytest.mark.requirement("T-POST-02")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (BOTH, 200),
        ("text/event-stream;q=0.5, application/json; charset=utf-8", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("application/json, text/*", 200),
        (None, 200),
        ("application/json", 200),
        ("text/event-stream", 200),
        ("application/json, text/event-stream;q=0", 200),
        ("text/html", 406),
        ("application/json;q=0, text/event-stream;q=0", 406),
    ],
)
def test_accept_must_allow_json_or_event_streams(client: Mcp, accept: str | None, status: int) -> None:
    assert post_with(client, {"Accept": accept}).status == status


@pytest.mark.requirement("T-POST-02")
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("large", {"size": 3}), ("steps", {"count": 2, "delay_seconds": 0.2})],
)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_response_uses_the_single_accepted_content_type(
    client: Mcp, accept: str, tool: str, arguments: dict[str, Any]
) -> None:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    message = client.request_message("tools/call", params)
    answer = client.post(message, Accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, accept)
    data = answer.body if accept == "application/json" else _events(answer.body)[-1]
    found = json.loads(data)
    assert found["id"] == message["id"]
    assert found["result"]["content"][0]["text"]


@pytest.mark.requirement("T-POST-02")
def test_batch_returns_one_array_if_only_json_is_accepted(open_session: OpenSession) -> None:
    client = open_session("2025-03-26")
    slow = {"name": "steps", "arguments": {"count": 2, "delay_seconds": 0.2}}
    batch = [client.request_message("tools/call", slow), client.request_message("ping")]
    answer = client.post(batch, Accept="application/json")
    assert answer.headers["content-type"] == "application/json"
    assert sorted(each["id"] for each in answer.json()) == [message["id"] for message in batch]


def _events(body: bytes) -> list[bytes]:
    lines = [line for line in body.split(b"\n") if line.startswith(b"data: ")]
    return [line.removeprefix(b"data: ") for line in lines if line != b"data: "]


@pytest.mark.requirement("T-POST-03")
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=UTF-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/json-rpc", 415),
        ("application/x-www-form-urlencoded", 415),
        (None, 415),
    ],
)
def test_non_json_content_type_returns_415(client: Mcp, content_type: str | None, status: int) -> None:
    assert post_with(client, {"Content-Type": content_type}).status == status


@pytest.mark.requirement("T-POST-04", "RPC-07", "GEN-03")
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"",
        b"ping",
        b'{"a":1}x',
        b"\xef\xbb\xbf{}",
        b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}',
        b"\x00",
    ],
)
def test_invalid_json_is_a_parse_error_without_id(client: Mcp, body: bytes) -> None:
    answer = client.post(body)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32700
    assert "id" not in answer.json()


@pytest.mark.requirement("T-POST-05", "RPC-01", "RPC-05")
@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": 2.0, "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        {"jsonrpc": "2.0", "id": 2**53, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "result": []},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": "1", "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}},
        "ping",
        17,
        None,
    ],
    ids=json.dumps,
)  # fmt: skip
def test_json_that_is_not_a_message_is_an_invalid_request(client: Mcp, message: Any) -> None:
    answer = client.post(message)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32600
    assert answer.json().get("id", 1) is not None


@pytest.mark.requirement("T-POST-06")
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": "nobody asked", "result": {}},
        {"jsonrpc": "2.0", "id": "nobody asked", "error": {"code": -1, "message": "no"}},
    ],
    ids=lambda message: message.get("method", "response"),
)
def test_notifications_and_responses_return_202_without_body(client: Mcp, message: dict[str, Any]) -> None:
    answer = client.post(message)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (202, b"", "0")


@pytest.mark.requirement("T-POST-07")
def test_json_response_is_used_only_for_a_single_message(client: Mcp) -> None:
    quick = client.post(ping(client))
    call = {"name": "steps", "arguments": {"count": 1}}
    chatty = client.post(client.request_message("tools/call", call))
    assert not is_stream(quick)
    assert quick.json()["result"] == {}
    assert is_stream(chatty)


@pytest.mark.requirement("T-POST-07")
def test_slow_response_becomes_a_stream(client: Mcp) -> None:
    call = {"name": "hold", "arguments": {"name": "slow", "seconds": 0.4}}
    with client.open_call("tools/call", call) as stream:
        assert stream.messages()[-1]["result"]["content"][0]["text"] == "slow"


@pytest.mark.requirement("T-POST-08")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("members", [0, 1, 2])
def test_arrays_are_refused_since_2025_06_18(open_session: OpenSession, version: str, members: int) -> None:
    client = open_session(version)
    answer = client.post([ping(client) for _ in range(members)])
    assert answer.status == 400
    assert answer.json()["error"]["code"] == -32600


@pytest.mark.requirement("T-POST-09")
def test_unexpected_response_is_dropped_and_logged(live: LiveServer, client: Mcp) -> None:
    assert client.respond("made-up-17", {"action": "accept"}).status == 202
    eventually(lambda: "made-up-17" in live.logs(), 5, "the log line")
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("T-POST-11")
@pytest.mark.parametrize(("size", "status"), [(4 * MIB, 200), (4 * MIB + 1, 413)])
def test_bodies_over_4_mib_are_refused(client: Mcp, size: int, status: int) -> None:
    body = json.dumps(ping(client)).encode()
    assert client.post(body + b" " * (size - len(body))).status == status


@pytest.mark.requirement("T-POST-11")
@pytest.mark.parametrize(("depth", "status"), [(64, 200), (65, 400), (100_000, 400)])
def test_deep_nesting_is_a_parse_error(client: Mcp, depth: int, status: int) -> None:
    # The message itself is one level, its params another.
    nested = b"[" * (depth - 2) + b"]" * (depth - 2)
    answer = client.post(b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"x":%b}}' % nested)
    assert answer.status == status
    if status == 400:
        assert answer.json()["error"]["code"] == -32700


@pytest.mark.requirement("T-POST-12")
@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "TRACE"])
def test_other_http_methods_list_the_allowed_methods(client: Mcp, method: str) -> None:
    answer = client.client.request(method, "/mcp", client.headers())
    assert answer.status == 405
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["allow"].replace(" ", "").split(","))


@pytest.mark.requirement("T-POST-13", "T-RES-04")
@pytest.mark.parametrize("version", LEGACY)
def test_dropped_post_stream_does_not_cancel_the_call(
    live: LiveServer, open_session: OpenSession, version: str
) -> None:
    client = open_session(version)
    stream = client.open_call(
        "tools/call", {"name": "steps", "arguments": {"count": 4, "delay_seconds": 0.1}}
    )
    while not stream.last_event_id:
        stream.next()
    stream.cut()
    with client.via(live.ports[1]).get_stream(stream.last_event_id) as resumed:
        assert resumed.messages()[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-POST-14", "T-POLL-03")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
def test_stream_before_2025_11_25_stays_open_until_the_response(
    open_session: OpenSession, version: str
) -> None:
    with open_session(version).open_call("tools/call", {"name": "test_reconnection"}) as stream:
        assert "result" in stream.messages()[-1]
        assert b"retry:" not in stream.raw


@pytest.mark.requirement("T-POST-15")
@pytest.mark.parametrize("version", LEGACY)
def test_stream_ends_with_its_response(open_session: OpenSession, version: str) -> None:
    client = open_session(version)
    with client.open_call("tools/call", {"name": "steps", "arguments": {"count": 2}}) as stream:
        while "result" not in stream.message():
            pass
        assert stream.next(timeout=1) is None


@pytest.mark.requirement("T-POST-16")
def test_elicitation_is_sent_on_the_stream_of_its_call(live: LiveServer, client: Mcp) -> None:
    with client.get_stream() as standalone, client.open_call("tools/call", {"name": "welcome"}) as call:
        standalone.next()  # The priming event.
        question = call.message()
        assert question["method"] == "elicitation/create"
        assert standalone.quiet(0.3)
        client.respond(question["id"], {"action": "accept", "content": {"value": "Ada"}})
        assert call.message()["result"]["content"][0]["text"] == "Hello, Ada!"
        assert standalone.quiet(0.3)


@pytest.mark.requirement("T-POST-17", "T-POST-18")
def test_responses_forbid_caching_and_have_content_types(client: Mcp) -> None:
    plain = client.post(ping(client)).headers
    refused = client.post(b"{").headers
    with client.open_call("tools/call", {"name": "steps", "arguments": {"count": 1}}) as stream:
        streamed = stream.headers
    for headers in (plain, refused, streamed):
        assert headers["cache-control"] == "no-cache, no-transform"
    assert plain["content-type"] == refused["content-type"] == "application/json"
    assert streamed["content-type"].startswith("text/event-stream")
    assert streamed["x-accel-buffering"] == "no"


def test_many_requests_share_one_connection(client: Mcp) -> None:
    started = time.monotonic()
    assert {client.call("ping")["id"] for _ in range(50)} == set(
        range(client.next_id - 49, client.next_id + 1)
    )
    assert time.monotonic() - started < 5 + SLACK


def test_open_stream_does_not_block_another_client(live: LiveServer, open_session: OpenSession) -> None:
    waiting, other = open_session(), open_session()
    with waiting.open_call("tools/call", {"name": "welcome"}) as stream:
        assert isinstance(stream, EventStream)
        assert other.call("ping")["result"] == {}


def test_path_below_the_endpoint_is_not_found(live: LiveServer) -> None:
    with RawClient("127.0.0.1", live.ports[0]) as raw:
        assert raw.request("POST", "/mcp/extra", {}, b"{}").status in (403, 404)
