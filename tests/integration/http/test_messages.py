"""JSON-RPC over HTTP: ids, errors and ignored members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer, eventually

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")


def request(identifier: Any, method: str = "ping", **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, **members}


@pytest.mark.requirement("RPC-02", "RPC-01")
@pytest.mark.parametrize("identifier", [0, 1, -5, 2**53 - 1, "1", "", "é😀", "x" * 500])
def test_response_id_keeps_its_type(client: Mcp, identifier: Any) -> None:
    answer = client.post(request(identifier)).json()
    assert answer == {"jsonrpc": "2.0", "id": identifier, "result": {}}
    assert type(answer["id"]) is type(identifier)


@pytest.mark.requirement("RPC-03")
def test_id_in_flight_is_refused_without_affecting_the_first_request(client: Mcp) -> None:
    call = {"name": "hold", "arguments": {"name": "first", "seconds": 0.6}}
    with client.open_call("tools/call", call) as first:
        second = client.post(request(client.next_id, "tools/call", params={"name": "test_simple_text"}))
        assert second.json()["error"]["code"] == -32600
        assert second.json()["id"] == client.next_id
        other = client.post(request(str(client.next_id), "tools/call", params={"name": "test_simple_text"}))
        assert other.json()["result"]["content"]
        assert first.messages()[-1]["result"]["content"][0]["text"] == "first"
    again = client.post(request(client.next_id, "tools/call", params={"name": "test_simple_text"}))
    assert again.json()["result"]["content"]


@pytest.mark.requirement("RPC-03", "GEN-02")
def test_equal_ids_of_different_sessions_do_not_clash(open_session: OpenSession) -> None:
    clients = [open_session() for _ in range(5)]
    params = {"name": "steps", "arguments": {"count": 2, "delay_seconds": 0.1}}
    streams = []
    for number, client in enumerate(clients):
        client.next_id = 41
        params = {"name": "steps", "arguments": {"count": 2, "delay_seconds": 0.1, "marker": f"{number}-"}}
        streams.append(client.open_call("tools/call", params))
    for number, stream in enumerate(streams):
        with stream:
            answer = stream.messages()[-1]
        assert answer["id"] == 42
        assert answer["result"]["content"][0]["text"] == f"{number}-done"


@pytest.mark.requirement("RPC-06")
@pytest.mark.parametrize(
    "method",
    ["notifications/unknown", "notifications/cancelled", "notifications/progress", "tools/list", "", "$/x"],
)
@pytest.mark.parametrize("params", [None, {}, {"requestId": {}, "reason": 5}])
def test_notification_gets_no_response(client: Mcp, method: str, params: dict[str, Any] | None) -> None:
    answer = client.notify(method, params)
    assert (answer.status, answer.body) == (202, b"")


FAULTS: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("unknown/method", {}, -32601),
    ("server/discover", {}, -32601),
    ("Ping", {}, -32601),
    ("", {}, -32601),
    ("x" * 10_000, {}, -32601),
    ("tools/call", {}, -32602),
    ("tools/call", {"name": 5}, -32602),
    ("tools/call", {"name": "no such tool"}, -32602),
    ("tools/call", {"name": "steps", "arguments": []}, -32602),
    ("tools/call", {"name": "test_simple_text", "_meta": {"progressToken": 1.5}}, -32602),
    ("tools/list", {"cursor": "made up"}, -32602),
    ("tools/list", {"cursor": 5}, -32602),
    ("prompts/get", {"name": "no such prompt"}, -32602),
    ("resources/read", {}, -32602),
    ("resources/read", {"uri": "test://missing"}, -32002),
    ("resources/read", {"uri": "fault://resource"}, -32603),
    ("resources/subscribe", {"uri": 1}, -32602),
    ("logging/setLevel", {"level": "loud"}, -32602),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "?"}}, -32602),
)


@pytest.mark.requirement("RPC-08")
@pytest.mark.parametrize(("method", "params", "code"), FAULTS, ids=lambda value: str(value)[:40])
def test_each_kind_of_error_has_its_code(client: Mcp, method: str, params: dict[str, Any], code: int) -> None:
    answer = client.post(client.request_message(method, params))
    assert answer.status == 200
    assert answer.json()["id"] == client.next_id
    assert answer.json()["error"]["code"] == code
    assert len(answer.body) < 1_000


@pytest.mark.requirement("RPC-08", "SEC-09")
@pytest.mark.parametrize("fault", ["tool", "resource"])
def test_internal_error_returns_only_an_incident_number(live: LiveServer, client: Mcp, fault: str) -> None:
    answer = (
        client.tool("fail") if fault == "tool" else client.call("resources/read", {"uri": "fault://resource"})
    )
    said = json.dumps(answer)
    assert "hunter2" not in said
    assert "Traceback" not in said
    assert "RuntimeError" not in said
    incident = said.partition("incident ")[2][:8]
    assert len(incident) == 8
    eventually(lambda: f"Incident {incident}" in live.logs(), 2, "the incident in the log")
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("RPC-10")
def test_missing_params_equal_an_empty_object(client: Mcp) -> None:
    for method in ("ping", "tools/list"):
        assert client.call(method)["result"] == client.call(method, {})["result"]
        assert client.post(request(7, method, params=None)).json()["result"] == client.call(method)["result"]


@pytest.mark.requirement("RPC-10")
@pytest.mark.parametrize("params", [[], [1]])
def test_positional_params_are_refused(client: Mcp, params: Any) -> None:
    answer = client.post(request(7, "tools/list", params=params))
    assert answer.json()["error"]["code"] == -32602
    assert answer.json()["id"] == 7


@pytest.mark.requirement("RPC-11")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"b":1,"b":2}}}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":Infinity}}',
        b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1%b}}' % (b"0" * 10_000),
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":1e999}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[%b0]}}' % (b"0," * 20_000),
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda body: body[:70].decode(),
)
def test_ambiguous_or_oversized_json_is_refused(client: Mcp, body: bytes) -> None:
    answer = client.post(body)
    assert answer.status == 400
    assert answer.json()["error"]["code"] in (-32700, -32600)


@pytest.mark.requirement("GEN-02")
@pytest.mark.parametrize("version", LEGACY)
def test_unknown_params_do_not_change_the_result(open_session: OpenSession, version: str) -> None:
    client = open_session(version)
    extra = {"x-foo": 1, "_meta": {"example.com/trace": ["kept", {"apart": None}]}}
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "test_simple_text"}),
        ("prompts/get", {"name": "test_simple_prompt"}),
        ("resources/read", {"uri": "test://static-text"}),
        ("ping", {}),
    ):
        assert client.call(method, params)["result"] == client.call(method, {**params, **extra})["result"]


@pytest.mark.requirement("GEN-03", "T-SSE-08")
def test_non_ascii_text_survives_the_round_trip(client: Mcp) -> None:
    marker = "Ünïcode 日本語 😀\u2028\u2029\u0085\x0b\x1e \u0000 \\ \" ' <b>"
    answer = client.tool("steps", count=1, marker=marker)
    assert answer["result"]["content"][0]["text"] == f"{marker}done"
    assert client.received[-1]["params"]["data"] == f"{marker}1 Größe 😀"
