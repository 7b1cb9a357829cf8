"""Hosts and origins, CORS, header confusion and invalid HTTP."""

from __future__ import annotations

import json
import socket

import pytest

from tests.clients.raw_http import Answer, Mcp, RawClient
from tests.clients.raw_wire import Wire
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
VERBS = ("POST", "GET", "DELETE", "OPTIONS")


def send(client: Mcp, method: str, headers: dict[str, str]) -> Answer:
    body = PING if method == "POST" else None
    found = client.client.open_stream(method, "/mcp", {**client.headers(), **headers}, body)
    if not isinstance(found, Answer):
        found.cut()
        return Answer(found.status, found.headers, b"")
    return found


@pytest.mark.requirement("SEC-02")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:{port}", True),
        ("localhost:{port}", True),
        ("LOCALHOST:{port}", True),
        ("localhost.:{port}", True),
        ("[::1]:{port}", True),
        ("localhost", True),
        ("evil.example", False),
        ("evil.example:{port}", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:{port}", False),
        ("127.0.0.1@evil.example", False),
        ("evil.example#127.0.0.1", False),
        ("127.0.0.1:{port}:80", False),
        ("127.0.0.1:", False),
        ("127.0.0.1:99999", False),
        ("[::1", False),
        ("[::ffff:127.0.0.1]", False),
        ("0.0.0.0:{port}", False),
        ("169.254.169.254", False),
        ("", False),
    ],
)
def test_foreign_host_is_refused_by_every_method(client: Mcp, method: str, host: str, allowed: bool) -> None:
    answer = send(client, method, {"Host": host.format(port=client.client.port)})
    assert (answer.status < 300) == allowed
    if not allowed:
        assert answer.status in (400, 421)


@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize("method", VERBS)
@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("http://localhost:{port}", True),
        ("http://127.0.0.1:{port}", True),
        ("http://localhost:3000", True),
        ("HTTP://LOCALHOST:{port}", True),
        ("http://evil.example", False),
        ("https://localhost.evil.example", False),
        ("http://localhost:{port}.evil.example", False),
        ("http://localhost:{port}@evil.example", False),
        ("http://localhost:{port}/", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("chrome-extension://abcdefghijklmnop", False),
        ("http://localhost:{port}, http://evil.example", False),
    ],
)
def test_foreign_origin_is_refused_and_a_missing_one_accepted(
    client: Mcp, method: str, origin: str | None, allowed: bool
) -> None:
    sent = {} if origin is None else {"Origin": origin.format(port=client.client.port)}
    answer = send(client, method, sent)
    assert (answer.status < 300) == allowed
    if not allowed:
        assert answer.status == 403
        assert "id" not in answer.json()
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.requirement("SEC-05", "T-POST-12")
def test_preflight_lists_allowed_methods_and_headers(strict: LiveServer) -> None:
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "POST"}
        answer = raw.request("OPTIONS", "/mcp", headers)
    allowed = {name.strip() for name in answer.headers["access-control-allow-headers"].lower().split(",")}
    assert answer.status in (200, 204)
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "access-control-allow-credentials" not in answer.headers
    assert {"GET", "POST", "DELETE"} <= set(answer.headers["access-control-allow-methods"].split(", "))
    assert {
        "authorization",
        "content-type",
        "mcp-session-id",
        "mcp-protocol-version",
        "last-event-id",
    } <= allowed


@pytest.mark.requirement("SEC-05")
def test_only_an_allowed_origin_may_read_the_session_id(open_strict: OpenSession, key: str) -> None:
    client = open_strict(token=key)
    with_origin = send(client, "POST", {"Origin": "https://app.example.com"})
    without = send(client, "POST", {})
    foreign = send(client, "POST", {"Origin": "https://other.example.com"})
    assert with_origin.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "mcp-session-id" in with_origin.headers["access-control-expose-headers"]
    assert "origin" in with_origin.headers["vary"].lower()
    for answer in (without, foreign):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert foreign.status == 403


@pytest.mark.requirement("SEC-05", "AUTH-03")
def test_unauthorized_response_is_readable_by_an_allowed_origin(strict: LiveServer) -> None:
    with RawClient("127.0.0.1", strict.ports[0]) as raw:
        headers = {"Origin": "https://app.example.com", "Content-Type": "application/json"}
        answer = raw.request("POST", "/mcp", headers, PING)
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "www-authenticate" in answer.headers["access-control-expose-headers"]


@pytest.mark.requirement("SEC-12", "SEC-02")
@pytest.mark.parametrize("name", ["X-Forwarded-Host", "Forwarded", "X-Original-URL", "X-Host"])
def test_forwarding_headers_are_not_reflected(client: Mcp, name: str) -> None:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    message = client.request_message("initialize", params)
    sent = {**client.headers(), name: "evil.example"}
    answer = client.client.request("POST", "/mcp", sent, json.dumps(message).encode())
    assert b"evil.example" not in answer.body + json.dumps(answer.headers).encode()


DUPLICATED = (
    ("Host", "127.0.0.1:{port}"),
    ("Content-Type", "application/json"),
    ("Content-Length", "40"),
    ("Authorization", "Bearer x"),
    ("Origin", "http://localhost"),
    ("Mcp-Session-Id", "{session}"),
    ("MCP-Protocol-Version", "2025-11-25"),
    ("Last-Event-ID", "standalone.1.1"),
)


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(("name", "value"), DUPLICATED)
def test_significant_header_sent_twice_is_refused(client: Mcp, name: str, value: str) -> None:
    value = value.format(port=client.client.port, session=client.session)
    sent = {key: text for key, text in client.headers().items() if key.lower() != name.lower()}
    if name != "Host":
        sent["Host"] = client.client.authority
    if name != "Content-Length":
        sent["Content-Length"] = str(len(PING))
    lines = [f"{key}: {text}" for key, text in [*sent.items(), (name, value), (name.upper(), value)]]
    data = ("POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + PING
    assert client.client.exchange(data).status == 400


def smuggled(client: Mcp) -> dict[str, bytes]:
    """Return requests that two parsers might frame differently; the second request must not be served."""
    known = f"Host: {client.client.authority}\r\nMcp-Session-Id: {client.session}\r\n"
    head = b"POST /mcp HTTP/1.1\r\n" + known.encode() + b"Content-Type: application/json\r\n"
    inner = head + b"Content-Length: %d\r\n\r\n" % len(PING) + PING
    length = b"Content-Length: %d\r\n" % len(PING)
    return {
        "length and chunked": head
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + inner,
        "two lengths": head + b"Content-Length: 0\r\n" + length + b"\r\n" + PING,
        "list of lengths": head + b"Content-Length: 40, 40\r\n\r\n" + PING,
        "negative length": head + b"Content-Length: -1\r\n\r\n" + PING,
        "signed length": head + b"Content-Length: +40\r\n\r\n" + PING,
        "hexadecimal length": head + b"Content-Length: 0x28\r\n\r\n" + PING,
        "huge length": head + b"Content-Length: 99999999999999999999\r\n\r\n" + PING,
        "blank before colon": head + b"Content-Length : 40\r\n\r\n" + PING,
        "folded header": head + b"X-Long: a\r\n Content-Length: 40\r\n\r\n" + PING,
        "bare line feed chunk": head + b"Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n" + inner,
        "chunk size overflow": head
        + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff1\r\nx\r\n0\r\n\r\n",
        "negative chunk": head + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n0\r\n\r\n" + inner,
        "unknown encoding": head + b"Transfer-Encoding: xchunked\r\n" + length + b"\r\n" + PING,
        "null in a value": head + b"X-A: a\0b\r\n" + length + b"\r\n" + PING,
        "no host": b"POST /mcp HTTP/1.1\r\n" + length + b"\r\n" + PING,
        "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n\r\n",
    }


CASES = (
    "length and chunked", "two lengths", "list of lengths", "negative length", "signed length",
    "hexadecimal length", "huge length", "blank before colon", "folded header", "bare line feed chunk",
    "chunk size overflow", "negative chunk", "unknown encoding", "null in a value", "no host", "garbage",
)  # fmt: skip


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize("case", CASES)
def test_ambiguously_framed_request_is_served_at_most_once(client: Mcp, case: str) -> None:
    wire = Wire("127.0.0.1", client.client.port, 3)
    try:
        wire.send(smuggled(client)[case])
        wire.socket.shutdown(socket.SHUT_WR)
        received = b""
        while piece := wire.more():
            received += piece
    except OSError:
        received = b"HTTP/1.1 400 reset"
    finally:
        wire.close()
    # Never a second response, and no result for an ambiguous request.
    assert received.count(b"HTTP/1.1 ") <= 1
    assert b'"result"' not in received
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        ({f"X-{number}": "v" for number in range(120)}, (400, 431)),
        ({"X-Big": "v" * 20_000}, (400, 431)),
        ({"X-Huge": "v" * 70_000}, (400, 431)),
        ({"X-Fine": "v" * 1_000}, (200,)),
    ],
    ids=["count", "bytes", "far too many bytes", "fine"],
)
def test_headers_are_limited(client: Mcp, headers: dict[str, str], statuses: tuple[int, ...]) -> None:
    assert client.client.request("POST", "/mcp", {**client.headers(), **headers}, PING).status in statuses


@pytest.mark.requirement("SEC-03")
def test_default_host_is_loopback() -> None:
    from mcpsite.environment import Environment

    assert Environment.model_fields["host"].default == "127.0.0.1"
