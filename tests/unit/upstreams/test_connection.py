"""Every wrong answer of another server ends in a fault of its kind, within its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.answers import Answered, Budget
from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.upstreams import client, connection
from mcp_app.upstreams.breaker import FAILURES, FIRST_SECONDS, LONGEST_SECONDS, Breaker
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer
from tests.unit.egress.sites import Heard, response, serve_kept

PEER = outgoing.Peer(V2025_11_25, "session-1")
SMALL = Budget(message_bytes=2_000, total_bytes=4_000)
RESULT = b'{"jsonrpc":"2.0","id":"a-1","result":{"content":[]}}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def stream(*messages: bytes) -> bytes:
    return HEAD + b"".join(b"data: " + each + b"\n\n" for each in messages)


async def asked(answer: bytes | Callable[[Heard, asyncio.StreamWriter], Any], seconds: float = 5.0) -> Any:
    """Return the event of the reply of a scripted server."""

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        if callable(answer):
            await answer(heard, writer)
            return
        writer.write(answer)
        if answer.startswith(HEAD):
            writer.close()

    async with serve_kept(handle) as site:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{site.port}/mcp")
        sent = outgoing.request(PEER, outgoing.Identity({}), "a-1", "tools/call", {"name": "x"})
        reply = await connection.post(server, sent, seconds=seconds, budget=SMALL)
        return reply.event


@pytest.mark.parametrize("answer", [response(RESULT), stream(RESULT)])
async def test_answer_is_read_from_json_and_from_events(answer: bytes) -> None:
    assert await asked(answer) == Answered({"content": []})


@pytest.mark.requirement("INT-71")
@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (response(b"", status="302 Found"), Kind.NOT_MCP),
        (response(b"", status="401 Unauthorized"), Kind.LOGIN),
        (response(b"", status="404 Not Found"), Kind.EXPIRED),
        (response(b"", status="405 Method Not Allowed"), Kind.NOT_MCP),
        (response(b"", status="503 Service Unavailable"), Kind.BUSY),
        (response(b"x" * 100_000, status="500 Oops"), Kind.NOT_MCP),
        (response(b"", status="202 Accepted"), Kind.NOT_MCP),
        (response(b"<html>", kind="text/html"), Kind.NOT_MCP),
        (response(b"{"), Kind.INVALID),
        (response(RESULT.replace(b"a-1", b"a-2")), Kind.INVALID),
        (stream(RESULT.replace(b"a-1", b"a-2")), Kind.INVALID),
        (response(b" " * 3_000), Kind.TOO_LARGE),
        (stream(b'{"jsonrpc":"2.0","method":"n"}') + b"data: " + b"x" * 3_000, Kind.TOO_LARGE),
        (stream(*[b'{"jsonrpc":"2.0","method":"n"}'] * 200), Kind.TOO_LARGE),
        (stream(), Kind.BROKEN_OFF),
        (stream(b'{"jsonrpc":"2.0","method":"n"}'), Kind.BROKEN_OFF),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", Kind.NOT_MCP),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Kind.BROKEN_OFF),
    ],
)
async def test_wrong_answer_ends_in_its_kind(answer: bytes, kind: Kind) -> None:
    with pytest.raises(UpstreamFault) as fault:
        await asked(answer, seconds=2.0)
    assert fault.value.kind == kind


async def test_silent_server_ends_in_a_timeout() -> None:
    async def silent(heard: Heard, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    with pytest.raises(UpstreamFault) as fault:
        await asked(silent, seconds=0.1)
    assert fault.value.kind == Kind.TIMEOUT


async def test_endless_stream_of_comments_ends_in_a_timeout() -> None:
    async def endless(heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.is_closing():
            writer.write(b": x\n\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    with pytest.raises(UpstreamFault) as fault:
        await asked(endless, seconds=0.3)
    assert fault.value.kind == Kind.TIMEOUT


@pytest.mark.requirement("INT-71")
async def test_idle_stream_ends_before_the_request_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def idle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b": first\n\n")
        await writer.drain()
        await asyncio.Event().wait()

    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.05)
    with pytest.raises(UpstreamFault) as fault:
        await asked(idle, seconds=60)
    assert fault.value.kind == Kind.TIMEOUT


async def test_closed_port_is_unreachable() -> None:
    async with serve_kept(lambda heard, writer: asyncio.sleep(0)) as site:
        port = site.port
    sent = outgoing.request(PEER, outgoing.Identity({}), "a-1", "ping", {})
    with pytest.raises(UpstreamFault) as fault:
        await connection.post(UpstreamServer(1, "other", f"http://127.0.0.1:{port}/"), sent, seconds=2)
    assert (fault.value.kind, fault.value.sent) == (Kind.UNREACHABLE, False)


async def test_requests_share_a_connection_after_json_and_after_events() -> None:
    chunk = b"data: " + RESULT + b"\n\n"
    chunked = HEAD.replace(b"Connection: close", b"Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\n\r\n" % (
        len(chunk), chunk,
    )  # fmt: skip
    answers = [chunked, response(RESULT), chunked]

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop())

    async with serve_kept(handle) as site:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{site.port}/mcp")
        sent = outgoing.request(PEER, outgoing.Identity({}), "a-1", "ping", {})
        for _ in range(3):
            await connection.post(server, sent)
        assert site.connections == 1


async def test_server_that_always_ends_the_session_is_asked_twice() -> None:
    opened = {"protocolVersion": V2025_11_25, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    methods = []

    async def handle(heard: Heard, writer: asyncio.StreamWriter) -> None:
        message = orjson.loads(heard.body)
        methods.append(message["method"])
        if message["method"] == "initialize":
            told = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": opened})
            writer.write(response(told, "Mcp-Session-Id: s"))
        elif message["method"] == "notifications/initialized":
            writer.write(response(b"", status="202 Accepted"))
        else:
            writer.write(response(b"", status="404 Not Found"))

    async with serve_kept(handle) as site:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{site.port}/mcp", era="legacy")
        with pytest.raises(UpstreamFault) as fault:
            await client.requested(server, Caller("one"), "tools/call", {"name": "x"}, hops=0, seconds=5)
    assert fault.value.kind == Kind.EXPIRED
    assert methods == ["initialize", "notifications/initialized", "tools/call"] * 2


# The breaker.


def outage() -> UpstreamFault:
    return UpstreamFault(Kind.UNREACHABLE, "cannot be reached.")


def is_admitted(breaker: Breaker, now: float) -> bool:
    try:
        breaker.admit(now)
    except UpstreamFault:
        return False
    return True


def test_breaker_opens_after_outages_in_a_row_and_lets_one_request_try() -> None:
    breaker = Breaker()
    for _ in range(FAILURES):
        assert is_admitted(breaker, 0.0)
        breaker.record(outage(), 0.0)
    assert not is_admitted(breaker, FIRST_SECONDS - 0.1)
    assert is_admitted(breaker, FIRST_SECONDS)
    assert not is_admitted(breaker, FIRST_SECONDS)
    assert is_admitted(breaker, FIRST_SECONDS * 2), "an attempt that takes long does not stop the next"
    breaker.record(None, FIRST_SECONDS * 2)
    assert is_admitted(breaker, FIRST_SECONDS)


def test_breaker_waits_twice_as_long_after_each_failed_try() -> None:
    breaker, now, waits = Breaker(), 0.0, []
    for _ in range(FAILURES + 6):
        breaker.record(outage(), now)
        waits.append(breaker.until - now)
        now = breaker.until
    assert waits[FAILURES - 1 :] == [5.0, 10.0, 20.0, 40.0, LONGEST_SECONDS, LONGEST_SECONDS, LONGEST_SECONDS]


def test_cancelled_try_lets_another_request_try() -> None:
    breaker = Breaker(outages=FAILURES)
    assert is_admitted(breaker, 1.0)
    breaker.release()
    assert is_admitted(breaker, 1.0)


@pytest.mark.parametrize(
    ("persons", "is_open"),
    [
        (["user:1"] * FAILURES * 2, False),
        ([f"user:{number}" for number in range(FAILURES - 1)] * 2, False),
        ([f"user:{number}" for number in range(FAILURES)], True),
        ([""] * FAILURES, True),
    ],
)
def test_timeouts_of_one_person_count_once(persons: list[str], *, is_open: bool) -> None:
    breaker = Breaker()
    for person in persons:
        breaker.record(UpstreamFault(Kind.TIMEOUT, "did not answer in time."), 0.0, person=person)
    assert is_admitted(breaker, 0.0) != is_open


def test_slow_tries_of_one_person_keep_the_breaker_open() -> None:
    breaker = Breaker(outages=FAILURES, slow={"user:1"})
    assert is_admitted(breaker, 1.0)
    breaker.record(UpstreamFault(Kind.TIMEOUT, ""), 1.0, person="user:1")
    assert not is_admitted(breaker, 1.0)


@pytest.mark.requirement("INT-70")
@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in OUTAGES])
def test_refusals_are_no_outages(kind: Kind) -> None:
    breaker = Breaker(outages=FAILURES - 1)
    breaker.record(UpstreamFault(kind, ""), 0.0)
    assert breaker.outages == 0
