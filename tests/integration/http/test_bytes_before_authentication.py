"""Limits of bytes and time before authentication, on every path (S28)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.clients.raw_http import Mcp
from tests.clients.raw_wire import Answer, Wire, read_body, read_head
from tests.integration.http.conftest import OpenSession
from tests.integration.http.other_process import OtherProcess
from tests.servers.live import LiveServer, WebProcess

MIB = 1024 * 1024
FLOOD = 20_000_000
DJANGO = ("/nope", "/connect/", "/admin/login/", "/api/calls/", "/api/catalogue/import/", "/static/x")
PATHS = ("/mcp", *DJANGO, "/healthz")
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
# ``/mcp`` of a server that requires authentication responds before it reads the body.
UNAUTHORIZED = dict.fromkeys(PATHS, ()) | {"/mcp": ([401],)}
SERVERS = pytest.mark.parametrize("server", ["live", "strict"], indirect=True)


@pytest.fixture
def server(request: pytest.FixtureRequest) -> LiveServer:
    """Return the server without or the server with required authentication."""
    found: LiveServer = request.getfixturevalue(request.param)
    return found


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    """Return the head of a request with the headers that ``/mcp`` accepts."""
    fixed = (
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
    )
    return "\r\n".join((f"{method} {path} HTTP/1.1", *fixed, *lines, "", "")).encode()


def chunked(path: str, *lines: str, body: bytes = b"{}") -> bytes:
    """Return a chunked request up to its last chunk; trailers may follow."""
    return head(path, "Transfer-Encoding: chunked", *lines) + b"%x\r\n%b\r\n0\r\n" % (len(body), body)


def everything(wire: Wire) -> bytes:
    """Return all bytes until the server closes the connection; raise TimeoutError if it does not."""
    received = b""
    try:
        while piece := wire.more():
            received += piece
    except ConnectionError:
        pass
    return received


def told(process: WebProcess, pieces: Iterator[bytes], patience: float = 20.0) -> bytes:
    """Send the pieces until none remains or the server stops reading; return its response.

    The server must close.
    """
    with closing(Wire("127.0.0.1", process.port, patience)) as wire:
        try:
            for piece in pieces:
                wire.send(piece)
        except ConnectionError:
            pass
        return everything(wire)


def statuses(received: bytes) -> list[int]:
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def answers(process: WebProcess, data: bytes, count: int = 1) -> list[Answer]:
    """Send the bytes at once and read ``count`` responses."""
    with closing(Wire("127.0.0.1", process.port)) as wire:
        wire.send(data)
        return [answer(wire) for _ in range(count)]


def answer(wire: Wire) -> Answer:
    status, headers = read_head(wire, None)
    return Answer(status, headers, read_body(wire, "POST", status, headers, None))


def flood(start: bytes, piece: bytes) -> Iterator[bytes]:
    yield start
    block = piece * (64_000 // len(piece) + 1)
    for _ in range(FLOOD // len(block)):
        yield block


TRAILERS = {
    "lines": (b"", b"X-T: " + b"a" * 900 + b"\r\n"),
    "tiny lines": (b"", b"a:b\r\n"),
    "one line": (b"X-T: ", b"a" * 1_000),
    "one name": (b"", b"a" * 1_000),
}


@SERVERS
@pytest.mark.parametrize("kind", TRAILERS)
@pytest.mark.parametrize("path", PATHS)
def test_endless_trailers_use_bounded_memory(server: LiveServer, path: str, kind: str) -> None:
    process = server.processes[0]
    start, piece = TRAILERS[kind]
    before = process.rss
    received = told(process, flood(chunked(path) + start, piece))
    assert process.rss - before < FLOOD
    # A response that was sent before the flood was detected remains the only one.
    assert statuses(received) in (
        [],
        [400],
        [431],
        *([[200]] if path == "/healthz" else []),
        *UNAUTHORIZED[path],
    )


@SERVERS
@pytest.mark.parametrize("path", PATHS)
def test_endless_chunk_size_line_is_cut_off(server: LiveServer, path: str) -> None:
    process = server.processes[0]
    before = process.rss
    start = head(path, "Transfer-Encoding: chunked") + b"2\r\n{}\r\n1;"
    received = told(process, flood(start, b"a" * 64_000))
    assert process.rss - before < FLOOD
    assert len(statuses(received)) <= 1


def test_slow_trailers_have_the_header_timeout(live: LiveServer) -> None:
    def pieces() -> Iterator[bytes]:
        yield chunked("/nope")
        while time.monotonic() - started < 60:
            yield b"a"
            time.sleep(0.25)

    started = time.monotonic()
    received = told(live.processes[0], pieces(), 60.0)
    # Ten seconds are allowed, and a sweep runs every two seconds; a body would have thirty.
    assert statuses(received) == [408]
    assert 9.0 < time.monotonic() - started < 27.0


@pytest.mark.parametrize("path", ["/mcp", "/api/calls/"])
def test_credential_in_a_trailer_is_ignored(strict: LiveServer, key: str, path: str) -> None:
    sent = chunked(path, body=PING) + f"Authorization: Bearer {key}\r\n\r\n".encode()
    assert answers(strict.processes[0], sent)[0].status == 401


def test_trailers_do_not_change_the_request(live: LiveServer, client: Mcp) -> None:
    forbidden = b"Host: evil.example\r\nExpect: 100-continue\r\nOrigin: null\r\nMcp-Session-Id: x\r\n\r\n"
    more = f"Mcp-Session-Id: {client.session}", "Mcp-Protocol-Version: 2025-11-25"
    found = answers(live.processes[0], (chunked("/mcp", *more, body=PING) + forbidden) * 3, 3)
    assert [each.status for each in found] == [200, 200, 200]
    assert {each.body for each in found} == {b'{"jsonrpc":"2.0","id":1,"result":{}}'}


@pytest.mark.parametrize("path", ["/mcp", "/nope", "/healthz"])
@pytest.mark.parametrize("trailer", ["Content-Length: 1", "Transfer-Encoding: gzip"])
def test_framing_headers_in_trailers_are_refused(live: LiveServer, path: str, trailer: str) -> None:
    sent = chunked(path) + f"{trailer}\r\n\r\n".encode() + head("/healthz", method="GET")
    assert statuses(told(live.processes[0], iter([sent]))) == [400]


@SERVERS
@pytest.mark.parametrize("expect", [(), ("Expect: 100-continue",)], ids=["", "expect"])
@pytest.mark.parametrize("path", PATHS)
def test_declared_length_over_limit_is_refused_without_reading_body(
    server: LiveServer, path: str, expect: tuple[str, ...]
) -> None:
    sent = head(path, f"Content-Length: {60 * MIB}", *expect)
    received = told(server.processes[0], iter([sent]))
    assert statuses(received) in ([413], *UNAUTHORIZED[path])
    assert b"\r\nconnection: close\r\n" in received


@SERVERS
@pytest.mark.parametrize("path", DJANGO)
def test_endless_chunked_body_is_refused(server: LiveServer, path: str) -> None:
    chunk = b"fa00\r\n" + b" " * 64_000 + b"\r\n"
    received = told(server.processes[0], flood(head(path, "Transfer-Encoding: chunked"), chunk))
    assert statuses(received) == [413]
    assert b"\r\nconnection: close\r\n" in received


@pytest.mark.parametrize("framing", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", PATHS)
def test_missing_body_times_out_and_closes_the_connection(
    strict: LiveServer, path: str, framing: str
) -> None:
    received = told(strict.processes[0], iter([head(path, framing) + b"9\r\n{"]))
    # Handlers that read no body do not wait for it; the connection closes all the same.
    assert statuses(received) == {"/mcp": [401], "/healthz": [200]}.get(path, [408])
    assert b"\r\nconnection: close\r\n" in received


def test_authenticated_upload_has_a_larger_limit(strict: LiveServer, key: str) -> None:
    sent = head("/api/catalogue/import/", f"Content-Length: {5 * MIB}", f"Authorization: Bearer {key}")
    allowed = answers(strict.processes[0], sent + b" " * 5 * MIB)[0]
    assert allowed.status == 403  # A user without any permission.
    unknown = answers(strict.processes[0], sent.replace(key.encode(), key[::-1].encode()))[0]
    assert unknown.status == 413
    assert "signed in" in unknown.json()["detail"]


@pytest.mark.parametrize("framing", ["Content-Length", "Transfer-Encoding"])
def test_api_reads_bodies_of_either_framing(strict: LiveServer, keys: OtherProcess, framing: str) -> None:
    key = keys.issue_key("root-of-the-api")
    keys.run("get_user_model().objects.filter(username='root-of-the-api').update(is_superuser=True)")
    body, more = b'{"tool": "there-is-none", "arguments": {}}', f"Authorization: Bearer {key}"
    if framing == "Content-Length":
        sent = head("/api/calls/", f"Content-Length: {len(body)}", more) + body
    else:
        sent = chunked("/api/calls/", more, body=body) + b"\r\n"
    (found,) = answers(strict.processes[0], sent)
    assert (found.status, "there-is-none" in found.json()["detail"]) == (404, True), found


# RFC 9112: an unknown coding returns 501 (section 6.1), one that leaves the length unknown 400 (6.3).
CODINGS = {
    "gzip, chunked": 501,
    "GZIP,Chunked": 501,
    "identity, chunked": 501,
    "x;chunked,chunked": 501,
    "gzip": 400,
    "identity": 400,
    "chunked, gzip": 400,
    "chunked, chunked": 400,
    "chunked\r\nTransfer-Encoding: chunked": 400,
    "gzip\r\nTransfer-Encoding: chunked": 501,
}


@pytest.mark.parametrize("path", ["/mcp", "/nope", "/healthz"])
@pytest.mark.parametrize("coding", CODINGS)
def test_transfer_coding_other_than_chunked_is_refused(live: LiveServer, path: str, coding: str) -> None:
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(PING), PING)
    sent = head(path, f"Transfer-Encoding: {coding}") + body + head("/healthz", method="GET")
    assert statuses(told(live.processes[0], iter([sent]))) == [CODINGS[coding]]


def test_previous_body_does_not_count_as_headers(live: LiveServer, client: Mcp) -> None:
    more = f"Mcp-Session-Id: {client.session}", "Mcp-Protocol-Version: 2025-11-25"
    body = PING + b" " * 50_000
    request = head("/mcp", *more, f"Content-Length: {len(body)}") + body
    with closing(Wire("127.0.0.1", live.ports[0])) as wire:
        for _ in range(20):
            wire.send(request + request[:40])
            assert answer(wire).status == 200
            wire.send(request[40:])
            assert answer(wire).status == 200


def test_pipelined_requests_are_answered_in_order_or_cut_off(live: LiveServer) -> None:
    process = live.processes[0]
    twenty = b"".join(head(f"/nope/{number}", method="GET") for number in range(20))
    assert [each.status for each in answers(process, twenty, 20)] == [404] * 20
    before = process.rss
    told(process, flood(b"", b"GET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    assert process.rss - before < FLOOD


@pytest.mark.parametrize("path", PATHS)
def test_header_limit_holds_on_every_path(live: LiveServer, path: str) -> None:
    sent = head(path, *["a: b"] * 2_000, method="GET")
    assert 431 in statuses(told(live.processes[0], iter([sent])))


@pytest.mark.parametrize("at_once", [0, 500_000], ids=["head first", "with some of the body"])
def test_refused_client_can_read_the_response_while_sending(strict: LiveServer, at_once: int) -> None:
    size = 20 * MIB
    with closing(Wire("127.0.0.1", strict.ports[0])) as wire:
        wire.send(head("/mcp", f"Content-Length: {size}") + b" " * at_once)
        status, headers = read_head(wire, None)
        # The server has closed its write side, and drains incoming bytes instead of resetting the connection.
        wire.send(b" " * (size - at_once))
        assert (status, headers["connection"]) == (401, "close")
        assert read_body(wire, "POST", status, headers, None)
        assert not wire.fill()


def test_many_open_bodies_use_little_memory_and_block_no_client(
    live: LiveServer, open_session: OpenSession
) -> None:
    process = live.processes[0]
    before = process.rss
    wires = [Wire("127.0.0.1", process.port) for _ in range(300)]
    try:
        for wire in wires:
            wire.send(head("/nope", "Content-Length: 16000") + b"a" * 15_000)
        assert open_session().call("ping")["result"] == {}
        assert process.rss - before < 15 * MIB
    finally:
        for wire in wires:
            wire.close()
