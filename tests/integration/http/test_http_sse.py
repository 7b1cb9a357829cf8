"""HTTP+SSE, the transport of 2024-11-05, across two processes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.raw_http import Answer, Mcp, RawClient
from tests.clients.raw_sse import HttpSseClient
from tests.integration.http.conftest import CAPABILITIES
from tests.integration.http.other_process import OtherProcess
from tests.samples.published_schema import problems
from tests.servers.live import LiveServer

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture
def client(live: LiveServer) -> Iterator[HttpSseClient]:
    """Open an event stream at the first process, before ``initialize``."""
    with HttpSseClient(live.ports) as opened:
        opened.open()
        yield opened


def gone(client: HttpSseClient) -> bool:
    """Return True if the session's address soon returns 404 at both processes."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answers = [client.post({"jsonrpc": "2.0", "method": "x"}, process).status for process in (0, 1)]
        if answers == [404, 404]:
            return True
    return False


@pytest.mark.requirement("SSE1-01", "SSE1-02", "SSE1-03")
def test_endpoint_event_names_the_post_url_and_responses_use_the_stream(
    client: HttpSseClient,
) -> None:
    assert client.address.startswith("/messages/?session_id=")
    assert len(client.address.partition("=")[2]) >= 32
    answer = client.post({"jsonrpc": "2.0", "id": "a", "method": "ping"})
    assert (answer.status, answer.body) == (202, b"Accepted")
    assert client.message() == {"jsonrpc": "2.0", "id": "a", "result": {}}


@pytest.mark.requirement("SSE1-08", "VER-02", "VER-10", "GEN-01")
@pytest.mark.parametrize("version", LEGACY)
def test_each_legacy_revision_is_negotiated_and_followed(client: HttpSseClient, version: str) -> None:
    result = client.initialize(version)
    assert result["protocolVersion"] == version
    assert not problems(version, "InitializeResult", result)
    tools = client.call("tools/list", process=1)["result"]
    assert not problems(version, "ListToolsResult", tools)
    called = client.call("tools/call", {"name": "test_simple_text", "arguments": {}})["result"]
    assert not problems(version, "CallToolResult", called)
    assert called["content"][0]["type"] == "text"


@pytest.mark.requirement("SSE1-04", "PROG-05", "SES-11")
@pytest.mark.parametrize("process", [0, 1])
def test_message_reaches_any_process_and_progress_precedes_the_response(
    client: HttpSseClient, process: int
) -> None:
    client.initialize(process=process)
    params = {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": "t"}}
    response = client.call("tools/call", params, process)
    assert response["result"]["content"]
    assert [message["params"]["progress"] for message in client.received] == [0, 50, 100]
    assert all("message" not in message["params"] for message in client.received)


@pytest.mark.requirement("SSE1-04")
def test_calls_run_concurrently_and_get_their_own_responses(client: HttpSseClient) -> None:
    client.initialize("2025-06-18", CAPABILITIES)
    slow = client.send("tools/call", {"name": "welcome", "arguments": {}}, process=1)
    question = client.message()
    quick = [client.send("ping", process=number % 2) for number in range(20)]
    messages = [client.message() for _ in quick]
    assert messages == [{"jsonrpc": "2.0", "id": number, "result": {}} for number in quick]
    answer = {"action": "accept", "content": {"value": "Ada"}}
    assert client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status == 202
    last = client.message()
    assert last["id"] == slow
    assert "Ada" in last["result"]["content"][0]["text"]


@pytest.mark.requirement("SSE1-04", "ELI-01")
def test_server_request_is_answered_through_the_other_process(
    client: HttpSseClient,
) -> None:
    client.initialize("2025-06-18", CAPABILITIES)
    asked = client.send("tools/call", {"name": "welcome", "arguments": {}})
    question = client.message()
    assert question["method"] == "elicitation/create"
    answer = {"action": "accept", "content": {"value": "Ada"}}
    assert client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer}, process=1).status == 202
    assert "Ada" in client.answer_to(asked)["result"]["content"][0]["text"]


@pytest.mark.requirement("SSE1-06", "CAN-01", "CAN-02")
@pytest.mark.parametrize("process", [0, 1])
def test_cancellation_through_any_process_stops_the_call_without_response(
    client: HttpSseClient, process: int
) -> None:
    client.initialize()
    held = client.send("tools/call", {"name": "hold", "arguments": {"name": "sse-cancel", "seconds": 60}})
    client.notify("notifications/cancelled", {"requestId": held}, process=process)
    assert client.stream is not None
    assert client.stream.quiet(0.5)
    # The id can be reused, so the call has finished.
    again = {"name": "hold", "arguments": {"name": "sse-again", "seconds": 0}}
    message = {"jsonrpc": "2.0", "id": held, "method": "tools/call", "params": again}
    assert client.post(message).status == 202
    assert "result" in client.answer_to(held)


@pytest.mark.requirement("DLG-004-02")
def test_cancel_request_by_its_older_name_is_answered(client: HttpSseClient) -> None:
    client.initialize()
    held = client.send("tools/call", {"name": "hold", "arguments": {"name": "sse-old", "seconds": 60}})
    client.notify("$/cancelRequest", {"id": held}, process=1)
    assert client.answer_to(held)["error"]["code"] == -32800


@pytest.mark.requirement("SSE1-06")
def test_session_ends_with_its_stream(client: HttpSseClient) -> None:
    client.initialize()
    assert client.stream is not None
    client.stream.cut()
    assert gone(client)


@pytest.mark.requirement("SSE1-03")
@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/messages/", 400),
        ("/messages/?session_id=", 400),
        ("/messages/?id=0123456789abcdef0123456789abcdef", 400),
        ("/messages/?session_id=0123456789abcdef0123456789abcdef", 404),
        ("/messages/?session_id=short", 404),
        ("/message?id=0123456789abcdef0123456789abcdef", 404),
    ],
)
def test_post_without_a_live_session_is_refused(client: HttpSseClient, address: str, status: int) -> None:
    answer = client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, address=address)
    assert answer.status == status
    assert json.loads(answer.body)["error"]["message"]


@pytest.mark.requirement("SSE1-03")
def test_invalid_body_is_refused_and_keeps_the_session(client: HttpSseClient) -> None:
    assert client.post(b"{", content_type="application/json").status == 400
    assert client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, content_type="text/plain").status == 415
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("DLG-004-04")
def test_only_ping_is_served_before_initialize(client: HttpSseClient) -> None:
    assert client.call("tools/list")["error"]["code"] == -32600
    assert client.call("ping")["result"] == {}
    client.initialize()
    assert client.call("tools/list")["result"]["tools"]
    again = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    assert client.call("initialize", again)["error"]["code"] == -32600


@pytest.mark.requirement("BATCH-07")
def test_batch_is_answered_by_one_array(client: HttpSseClient) -> None:
    client.initialize()
    batch = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (101, 102)]
    assert client.post(batch, process=1).status == 202
    answers: Any = client.message()
    assert sorted(answer["id"] for answer in answers) == [101, 102]


@pytest.mark.requirement("DLG-000-07")
def test_early_address_accepts_both_session_parameters(client: HttpSseClient) -> None:
    session = client.address.partition("=")[2]
    for name in ("id", "session_id"):
        client.address = f"/message?{name}={session}"
        assert client.call("ping")["result"] == {}


@pytest.mark.requirement("SSE1-07")
def test_session_of_one_transport_is_unknown_to_the_other(live: LiveServer, client: HttpSseClient) -> None:
    client.initialize()
    stranger = Mcp.at(live.ports[0], session=client.address.partition("=")[2], version="2025-06-18")
    assert stranger.post(stranger.request_message("ping")).status == 404
    stranger.initialize()
    address = f"/messages/?session_id={stranger.session}"
    assert client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, address=address).status == 404
    stranger.delete()
    stranger.close()


@pytest.mark.requirement("SSE1-07")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/sse", 405), ("DELETE", "/sse", 405), ("GET", "/messages/", 405), ("GET", "/mcp", 400)],
)
def test_wrong_methods_are_refused(live: LiveServer, method: str, path: str, status: int) -> None:
    with RawClient("127.0.0.1", live.ports[0]) as raw:
        answer = raw.request(method, path, {"Accept": "text/event-stream"})
    assert answer.status == status
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.requirement("SSE1-05")
@pytest.mark.parametrize(("method", "path"), [("GET", "/sse"), ("POST", "/messages/")])
@pytest.mark.parametrize(
    ("header", "value", "status"), [("Origin", "http://evil.example", 403), ("Host", "evil.example", 421)]
)
def test_foreign_origin_and_host_are_refused_on_both_addresses(
    live: LiveServer, method: str, path: str, header: str, value: str, status: int
) -> None:
    with RawClient("127.0.0.1", live.ports[0]) as raw:
        refused = raw.open_stream(method, path, {header: value, "Accept": "*/*"})
    assert isinstance(refused, Answer)
    assert refused.status == status


@pytest.mark.requirement("AUTH-17")
@pytest.mark.parametrize(("method", "path"), [("GET", "/sse"), ("POST", "/messages/?session_id=x")])
def test_both_addresses_require_a_credential(strict: LiveServer, method: str, path: str) -> None:
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        answer = raw.open_stream(method, path, {"Accept": "text/event-stream"})
    assert isinstance(answer, Answer)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.requirement("SSE1-05", "SES-09")
def test_session_belongs_to_its_principal(strict: LiveServer, keys: OtherProcess) -> None:
    mine, other = keys.issue_key("sse mine"), keys.issue_key("sse other")
    with HttpSseClient(strict.ports, token=mine) as client:
        client.open()
        client.token = other
        assert client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, process=1).status == 404
        client.token = None
        assert client.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, process=1).status == 401
        client.token = mine
        assert client.call("ping", process=1)["result"] == {}


def test_many_large_concurrent_responses_all_arrive(client: HttpSseClient) -> None:
    client.initialize()
    size = 600_000
    ids = [
        client.send("tools/call", {"name": "large", "arguments": {"size": size}}, process=number % 2)
        for number in range(6)
    ]
    answers = [client.message() for _ in ids]
    assert sorted(answer["id"] for answer in answers) == ids
    assert all(len(answer["result"]["content"][0]["text"]) == size for answer in answers)


def test_catalogue_change_is_sent_on_the_stream(client: HttpSseClient, admin: OtherProcess) -> None:
    client.initialize()
    change = "set_enabled(entries=[Tool.objects.get(name='spare')], enabled=on, actor=None)\nresult = True"
    admin.run(change, on=False)
    try:
        assert client.message()["method"] == "notifications/tools/list_changed"
    finally:
        admin.run(change, on=True)
