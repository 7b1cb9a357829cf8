"""The fast path for requests without waiting gives the same responses as the ordinary path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.clients.raw_modern import Modern
from tests.clients.raw_wire import PATIENCE, Answer, Wire, read_body, read_head, request_bytes
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer, eventually

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
# Response headers of requests with an Origin, which always take the ordinary path.
OF_ORIGIN = ("access-control-allow-origin", "access-control-expose-headers", "vary", "date")

REQUESTS: dict[str, dict[str, Any]] = {
    "ping": PING,
    "string id": {"jsonrpc": "2.0", "id": "é\U0001f600", "method": "ping"},
    "list": {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    "prompts": {"jsonrpc": "2.0", "id": 2, "method": "prompts/list", "params": {}},
    "bad cursor": {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"cursor": "x"}},
    "unknown method": {"jsonrpc": "2.0", "id": 4, "method": "nothing/here"},
    "unknown tool": {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "none"}},
    "no name": {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {}},
    "wrong params": {"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []},
    "wrong version": {"jsonrpc": "1.0", "id": 8, "method": "ping"},
}


def exchange(live: LiveServer, data: list[bytes], count: int = 1) -> list[Answer]:
    """Send each piece of bytes when the server asks for it, and read the responses."""
    wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
    try:
        wire.send(data[0])
        for piece in data[1:]:
            assert read_head(wire, None)[0] == 100
            wire.send(piece)
        answers = []
        for _ in range(count):
            status, headers = read_head(wire, None)
            answers.append(Answer(status, headers, read_body(wire, "POST", status, headers, None)))
        return answers
    finally:
        wire.close()


def bytes_of(live: LiveServer, client: Mcp, message: Any, **more: str) -> bytes:
    authority = f"127.0.0.1:{live.ports[0]}"
    return request_bytes("POST", "/mcp", authority, client.headers(**more), json.dumps(message).encode())


def plain(answer: Answer) -> Answer:
    kept = {name: value for name, value in answer.headers.items() if name not in OF_ORIGIN}
    return answer._replace(headers=kept)


@pytest.mark.parametrize("name", REQUESTS)
def test_fast_and_ordinary_path_return_the_same_response(
    live: LiveServer, open_session: OpenSession, name: str
) -> None:
    client = open_session("2025-11-25")
    origin = f"http://127.0.0.1:{live.ports[0]}"
    (quick,) = exchange(live, [bytes_of(live, client, REQUESTS[name])])
    (ordinary,) = exchange(live, [bytes_of(live, client, REQUESTS[name], Origin=origin)])
    assert plain(quick) == plain(ordinary)


@pytest.mark.parametrize(
    "changed",
    [
        {"Accept": "text/html"},
        {"Content_Type": "text/plain"},
        {"Content_Encoding": "gzip"},
        {"Mcp_Session_Id": "unknown-session-unknown-session"},
        {"MCP_Protocol_Version": "1999-01-01"},
        {"Authorization": "Bearer unknown"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_fast_and_ordinary_path_refuse_alike(
    live: LiveServer, open_session: OpenSession, changed: dict[str, str]
) -> None:
    client = open_session("2025-11-25")
    origin = f"http://127.0.0.1:{live.ports[0]}"
    (quick,) = exchange(live, [bytes_of(live, client, PING, **changed)])
    (ordinary,) = exchange(live, [bytes_of(live, client, PING, Origin=origin, **changed)])
    assert quick.status >= 400
    assert plain(quick) == plain(ordinary)


def test_requests_in_one_packet_are_answered_in_order(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    messages = [{**PING, "id": number} for number in range(5)]
    messages.insert(
        2, {"jsonrpc": "2.0", "id": "slow", "method": "logging/setLevel", "params": {"level": "info"}}
    )
    data = b"".join(bytes_of(live, client, message) for message in messages)
    answers = exchange(live, [data], len(messages))
    assert [answer.json()["id"] for answer in answers] == [message["id"] for message in messages]


def test_late_body_is_awaited(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    data = bytes_of(live, client, PING, Expect="100-continue")
    head, _, body = data.partition(b"\r\n\r\n")
    (answer,) = exchange(live, [head + b"\r\n\r\n", body])
    assert answer.json() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_connection_alternates_between_fast_and_ordinary_path(
    live: LiveServer, open_session: OpenSession
) -> None:
    client = open_session("2025-11-25")
    for number in range(20):
        assert client.call("ping") == {"jsonrpc": "2.0", "id": client.next_id, "result": {}}
        assert client.call("logging/setLevel", {"level": "info"})["result"] == {}
        assert client.call("nothing/here")["error"]["code"] == -32601, number


def test_connection_close_is_honoured(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
    wire.send(bytes_of(live, client, PING, Connection="close"))
    status, headers = read_head(wire, None)
    assert read_body(wire, "POST", status, headers, None) == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert not wire.fill()
    wire.close()


def call(tool: str, number: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.parametrize("seconds", [0.0, 0.05], ids=["within the grace, soon", "within the grace"])
def test_waiting_call_has_the_same_response_on_both_paths(
    live: LiveServer, open_session: OpenSession, seconds: float
) -> None:
    client = open_session("2025-11-25")
    origin = f"http://127.0.0.1:{live.ports[0]}"
    message = call("pause", 1, seconds=seconds)
    (quick,) = exchange(live, [bytes_of(live, client, message)])
    (ordinary,) = exchange(live, [bytes_of(live, client, message, Origin=origin)])
    assert quick.json()["result"] == {"content": [{"type": "text", "text": "paused"}]}
    assert plain(quick) == plain(ordinary)


@pytest.mark.parametrize("name", ["pause", "steps", "welcome", "fail", "spare"])
def test_call_has_the_same_content_type_on_both_paths(
    live: LiveServer, open_session: OpenSession, name: str
) -> None:
    client = open_session("2025-11-25")
    client.call("logging/setLevel", {"level": "info"})
    origin = f"http://127.0.0.1:{live.ports[0]}"
    arguments: dict[str, Any] = {"pause": {"seconds": 0.3}, "steps": {"count": 3}}.get(name, {})
    kinds = []
    for more in ({}, {"Origin": origin}):
        wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
        wire.send(bytes_of(live, client, call(name, len(kinds) + 1, **arguments), **more))
        status, headers = read_head(wire, None)
        kinds.append((status, headers["content-type"]))
        wire.close()
    assert kinds[0] == kinds[1]


def test_requests_behind_a_held_call_are_answered_after_it(
    live: LiveServer, open_session: OpenSession
) -> None:
    client = open_session("2025-11-25")
    messages = [call("pause", 1, seconds=0.02), {**PING, "id": 2}, call("pause", 3, seconds=0.0)]
    data = b"".join(bytes_of(live, client, message) for message in messages)
    answers = exchange(live, [data], 3)
    assert [answer.json()["id"] for answer in answers] == [1, 2, 3]


def test_bytes_after_a_held_call_are_parsed_as_the_next_request(
    live: LiveServer, open_session: OpenSession
) -> None:
    client = open_session("2025-11-25")
    wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
    wire.send(bytes_of(live, client, call("pause", 1, seconds=0.05)))
    following = bytes_of(live, client, {**PING, "id": 2})
    wire.send(following[:20])
    wire.send(following[20:])
    found = []
    for _ in range(2):
        status, headers = read_head(wire, None)
        found.append(Answer(status, headers, read_body(wire, "POST", status, headers, None)).json()["id"])
    wire.close()
    assert found == [1, 2]


@pytest.mark.parametrize(("modern", "end"), [(True, "cancelled"), (False, "finished")])
def test_disconnect_cancels_a_held_call_only_in_2026_07_28(
    live: LiveServer, open_session: OpenSession, *, modern: bool, end: str
) -> None:
    name = f"left-{end}"
    message = call("hold", 1, name=name, seconds=3600 if modern else 0.05)
    if modern:
        headers, body = Modern(live.ports[0])._request("tools/call", message["params"])
        data = request_bytes("POST", "/mcp", f"127.0.0.1:{live.ports[0]}", headers, body)
    else:
        data = bytes_of(live, open_session("2025-11-25"), message)
    ledger = live.folder / "data" / "ledger"
    wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
    wire.send(data)
    eventually(lambda: ledger.exists() and f"start {name}\n" in ledger.read_text("utf-8"), 10, "it starts")
    wire.close()
    eventually(lambda: f"{end} {name}\n" in ledger.read_text("utf-8"), 10, f"it is {end}")


INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def initialize(**changes: Any) -> dict[str, Any]:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params | changes}


def both_ways(live: LiveServer, client: Mcp, method: str, message: Any, **more: str) -> list[Answer]:
    """Return the responses to the same request on the fast and on the ordinary path."""
    authority = f"127.0.0.1:{live.ports[0]}"
    body = None if message is None else json.dumps(message).encode()
    answers = []
    for headers in (client.headers(**more), client.headers(**more, Origin=f"http://{authority}")):
        answers += exchange(live, [request_bytes(method, "/mcp", authority, headers, body)])
    return answers


def test_both_paths_open_a_session_alike(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    client.session = None
    ids = []
    quick, ordinary = map(plain, both_ways(live, client, "POST", initialize()))
    for answer in (quick, ordinary):
        ids.append(answer.headers.pop("mcp-session-id"))
    assert quick.status == 200
    assert quick == ordinary
    for client.session in ids:
        assert client.call("ping")["result"] == {}


@pytest.mark.parametrize(
    "changes",
    [{"protocolVersion": 1}, {"capabilities": []}, {"clientInfo": {"name": "t"}}],
    ids=lambda changes: next(iter(changes)),
)
def test_both_paths_refuse_an_invalid_initialize_alike(
    live: LiveServer, open_session: OpenSession, changes: dict[str, Any]
) -> None:
    client = open_session("2025-11-25")
    client.session = None
    quick, ordinary = both_ways(live, client, "POST", initialize(**changes))
    assert quick.json()["error"]["code"] == -32602
    assert plain(quick) == plain(ordinary)


def test_both_paths_confirm_a_session_alike(live: LiveServer, open_session: OpenSession) -> None:
    quick, ordinary = both_ways(live, open_session("2025-11-25"), "POST", INITIALIZED)
    assert (quick.status, quick.body) == (202, b"")
    assert plain(quick) == plain(ordinary)


def test_both_paths_end_a_session_alike(live: LiveServer, open_session: OpenSession) -> None:
    authority = f"127.0.0.1:{live.ports[0]}"
    answers = []
    for more in ({}, {"Origin": f"http://{authority}"}):
        client = open_session("2025-11-25")
        headers = client.headers(**more)
        ended, after = exchange(live, [request_bytes("DELETE", "/mcp", authority, headers, None) * 2], 2)
        assert (ended.status, ended.body) == (200, b"")
        assert after.status == 404
        answers.append((plain(ended), plain(after)))
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("method", "changed"),
    [
        ("POST", {"Mcp_Session_Id": "unknown-session-unknown-session"}),
        ("POST", {"MCP_Protocol_Version": "1999-01-01"}),
        ("POST", {"Authorization": "Bearer unknown"}),
        ("DELETE", {"Mcp_Session_Id": "unknown-session-unknown-session"}),
        ("DELETE", {"MCP_Protocol_Version": "1999-01-01"}),
        ("DELETE", {"MCP_Protocol_Version": "2026-07-28"}),
        ("DELETE", {"Authorization": "Bearer unknown"}),
    ],
)
def test_both_paths_refuse_to_confirm_or_end_a_session_alike(
    live: LiveServer, open_session: OpenSession, method: str, changed: dict[str, str]
) -> None:
    client = open_session("2025-11-25")
    message = INITIALIZED if method == "POST" else None
    quick, ordinary = both_ways(live, client, method, message, **changed)
    assert quick.status >= 400
    assert plain(quick) == plain(ordinary)


def test_session_ended_while_being_confirmed_stays_ended(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25", confirm=False)
    authority = f"127.0.0.1:{live.ports[0]}"
    data = bytes_of(live, client, INITIALIZED)
    data += request_bytes("DELETE", "/mcp", authority, client.headers(), None)
    data += bytes_of(live, client, PING)
    answers = exchange(live, [data], 3)
    assert [answer.status for answer in answers] == [202, 200, 404]


def test_delete_ends_the_session_after_a_disconnect(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    authority = f"127.0.0.1:{live.ports[0]}"
    wire = Wire("127.0.0.1", live.ports[0], PATIENCE)
    wire.send(request_bytes("DELETE", "/mcp", authority, client.headers(), None))
    wire.close()
    eventually(lambda: client.post(PING).status == 404, 10, "it is ended")


def test_delete_with_a_body_takes_the_ordinary_path(live: LiveServer, open_session: OpenSession) -> None:
    client = open_session("2025-11-25")
    authority = f"127.0.0.1:{live.ports[0]}"
    (ended,) = exchange(live, [request_bytes("DELETE", "/mcp", authority, client.headers(), b"{}")])
    assert ended.status == 200
    assert client.post(PING).status == 404
