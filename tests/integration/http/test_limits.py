"""Limits of requests and responses: refusals have a Retry-After, and the process stays up."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import Answer, EventStream, Mcp
from tests.clients.raw_wire import Wire, read_body, read_head
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer, eventually

KIB = 1024


@pytest.fixture
def client(open_strict: OpenSession, key: str) -> Iterator[Mcp]:
    """Open a session with low limits, and assert afterwards that the process still answers it."""
    session = open_strict("2025-06-18", token=key)
    yield session
    assert session.call("ping")["result"] == {}


def head_of(client: Mcp, *more: str) -> bytes:
    lines = [f"{name}: {value}" for name, value in client.headers(Host=client.client.authority).items()]
    return ("POST /mcp HTTP/1.1\r\n" + "\r\n".join([*lines, *more]) + "\r\n\r\n").encode()


def answer_to(client: Mcp, pieces: Iterator[bytes], patience: float = 5 + SLACK) -> Answer:
    """Send piece by piece until the server responds or closes; return its response."""
    with closing(Wire("127.0.0.1", client.client.port, patience)) as wire:
        try:
            for piece in pieces:
                wire.send(piece)
        except OSError:
            pass  # The server stopped reading; its response is still to be read.
        deadline = time.monotonic() + patience
        status, headers = read_head(wire, deadline)
        return Answer(status, headers, read_body(wire, "POST", status, headers, deadline))


@pytest.mark.requirement("T-POST-11", "SEC-07")
@pytest.mark.parametrize(("size", "status"), [(64 * KIB, 200), (64 * KIB + 1, 413), (10 * 1024 * KIB, 413)])
def test_body_limit_is_configurable(client: Mcp, size: int, status: int) -> None:
    body = json.dumps(client.request_message("ping")).encode()
    answer = client.post(body + b" " * (size - len(body)))
    assert answer.status == status
    if status == 413:
        assert "larger than" in answer.json()["error"]["message"]


@pytest.mark.requirement("T-POST-11", "SEC-07")
def test_endless_chunked_body_is_cut_off(client: Mcp) -> None:
    def pieces() -> Iterator[bytes]:
        yield head_of(client, "Transfer-Encoding: chunked")
        for _ in range(200):
            yield b"1000\r\n" + b" " * 4096 + b"\r\n"
            time.sleep(0.001)

    assert answer_to(client, pieces()).status == 413


@pytest.mark.requirement("SEC-07")
def test_declared_length_over_the_limit_is_refused_before_the_body(client: Mcp) -> None:
    assert answer_to(client, iter([head_of(client, "Content-Length: 1000000")]), 2).status == 413


@pytest.mark.requirement("SEC-07")
def test_slow_body_times_out(client: Mcp) -> None:
    def pieces() -> Iterator[bytes]:
        yield head_of(client, "Content-Length: 1000")
        yield b"{"

    started = time.monotonic()
    # One second is allowed here, and a sweep runs every second.
    assert answer_to(client, pieces()).status == 408
    assert time.monotonic() - started < 3.5 + SLACK


@pytest.mark.requirement("SEC-07", "T-POST-03")
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
def test_compressed_body_is_refused(client: Mcp, encoding: str) -> None:
    bomb = gzip.compress(b" " * 1_000_000)
    assert client.post(bomb, Content_Encoding=encoding).status == 415


@pytest.mark.requirement("T-POST-11", "RPC-11", "SEC-07")
@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        ({"x": "a" * 8 * KIB}, True),
        ({"x": "a" * (8 * KIB + 1)}, False),
        ({"a" * (8 * KIB + 1): 1}, False),
        ({"x": [0] * 900}, True),
        ({"x": [0] * 1_100}, False),
        ({str(number): 0 for number in range(1_100)}, False),
    ],
    ids=["string", "string + 1", "key + 1", "values", "too many values", "too many keys"],
)
def test_json_strings_and_values_are_limited(client: Mcp, params: dict[str, Any], allowed: bool) -> None:
    answer = client.post(client.request_message("ping", params))
    assert answer.status == (200 if allowed else 400)


@pytest.mark.requirement("SEC-07")
def test_streams_per_principal_are_limited(client: Mcp, open_strict: OpenSession) -> None:
    with ExitStack() as stack:
        sessions = [client, *(open_strict("2025-06-18", token=client.token) for _ in range(3))]
        for session in sessions[:3]:
            stack.enter_context(session.get_stream())
        refused = sessions[3].try_get_stream()
        assert isinstance(refused, Answer)
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0

    def let_in() -> bool:
        found = sessions[3].try_get_stream()
        if isinstance(found, EventStream):
            found.cut()
        return found.status == 200

    eventually(let_in, 2, "a place is free again")


@pytest.mark.requirement("SEC-07", "BATCH-08")
def test_concurrent_calls_per_principal_are_limited(client: Mcp) -> None:
    call = {"name": "hold", "arguments": {"name": "place", "seconds": 1.0}}
    with ExitStack() as stack:
        streams = [stack.enter_context(client.open_call("tools/call", call)) for _ in range(4)]
        refused = client.post(client.request_message("tools/call", call))
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["id"] == client.next_id
        assert client.call("tools/list")["result"]["tools"]
        assert all(stream.messages()[-1]["result"]["content"] for stream in streams)
    assert client.tool("steps", count=1)["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("SEC-07")
def test_subscriptions_per_session_are_limited(client: Mcp) -> None:
    uris = [f"test://template/{number}/data" for number in range(4)]
    answers = [client.call("resources/subscribe", {"uri": uri}) for uri in uris]
    assert ["result" in answer for answer in answers] == [True, True, True, False]
    client.call("resources/unsubscribe", {"uri": uris[0]})
    assert "result" in client.call("resources/subscribe", {"uri": uris[3]})


@pytest.mark.requirement("SEC-07")
@pytest.mark.parametrize(("size", "failed"), [(30 * KIB, False), (40 * KIB, True)])
def test_too_large_result_is_a_tool_error(client: Mcp, size: int, failed: bool) -> None:
    answer = client.tool("large", size=size)
    assert bool(answer["result"].get("isError")) == failed
    assert len(json.dumps(answer)) < size + KIB


@pytest.mark.requirement("SEC-08", "SEC-07")
def test_client_that_stops_reading_is_disconnected_and_slows_no_other(
    strict: LiveServer, client: Mcp, open_strict: OpenSession
) -> None:
    quick = open_strict("2025-06-18", token=client.token)
    before = strict.processes[0].rss
    call = {"name": "flood", "arguments": {"count": 1_000, "size": 30_000}}
    stalled = [client.open_call("tools/call", call) for _ in range(3)]
    slowest = 0.0
    for _ in range(30):
        started = time.monotonic()
        assert quick.call("ping")["result"] == {}
        slowest = max(slowest, time.monotonic() - started)
        time.sleep(0.01)
    # 90 MB were sent: neither the readers' buffers nor the event log may have stored them.
    assert strict.processes[0].rss - before < 40_000_000
    assert slowest < 1.0 + SLACK
    eventually(
        lambda: strict.logs().count("A client stopped reading stream") >= 3, 6, "all three are cut off"
    )
    for stream in stalled:
        stream.cut()


@pytest.mark.requirement("SEC-08", "T-RES-08", "T-POST-13")
def test_disconnected_slow_reader_resumes_and_gets_the_response(strict: LiveServer, client: Mcp) -> None:
    stream = client.open_call("tools/call", {"name": "flood", "arguments": {"count": 400, "size": 30_000}})
    stream.next()
    seen = strict.logs().count("A client stopped reading stream")
    eventually(lambda: strict.logs().count("A client stopped reading stream") > seen, 20, "it is cut off")
    position = stream.last_event_id
    stream.cut()
    with client.via(strict.ports[1]).get_stream(position) as resumed:
        assert resumed.messages()[-1]["result"]["content"][0]["text"] == "flooded"


@pytest.mark.requirement("SEC-07", "T-RES-08")
def test_every_redis_key_expires(strict: LiveServer, client: Mcp, keys: Any) -> None:
    client.tool("steps", count=3)
    unbounded = keys.run(
        "import redis\n"
        "from mcp_app import conf\n"
        "store = redis.Redis.from_url(conf.get().redis_url)\n"
        "result = [key.decode() for key in store.scan_iter() if store.ttl(key) == -1]"
    )
    assert unbounded == []
