"""Answers that two readers could understand differently, and bytes that nobody asked for."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct

import pytest

from mcp_app.egress import EgressFailed, Request, Secrets, connections, exchange
from mcp_app.egress.wire import MAX_HEAD_BYTES, MAX_WAITING_BYTES, request_head
from tests.unit.egress.sites import Heard, KeptSite, Names, always, response, serve_kept

HOME = Names(site_test=[["127.0.0.1"]])
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH, CHUNKED = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"\r\n5\r\nhello\r\n0\r\n\r\n"

# Answers whose end, headers or protocol are not certain.
BROKEN = {
    "two lengths": OK + b"Content-Length: 2\r\n" + LENGTH + b"\r\nhello",
    "same length twice": OK + LENGTH + LENGTH + b"\r\nhello",
    "list of lengths": OK + b"Content-Length: 5, 5\r\n\r\nhello",
    "length and chunks": OK + LENGTH + CHUNKED + CHUNKS,
    "chunks and length": OK + CHUNKED + LENGTH + CHUNKS,
    "length with sign": OK + b"Content-Length: +5\r\n\r\nhello",
    "negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "length with underscore": OK + b"Content-Length: 0_5\r\n\r\nhello",
    "huge length": OK + b"Content-Length: 99999999999999999999999999\r\n\r\nhello",
    "empty length": OK + b"Content-Length:\r\n\r\nhello",
    "other coding before chunks": OK + b"Transfer-Encoding: gzip, chunked\r\n" + CHUNKS,
    "chunks twice": OK + b"Transfer-Encoding: chunked, chunked\r\n" + CHUNKS,
    "two codings": OK + CHUNKED + b"Transfer-Encoding: identity\r\n" + CHUNKS,
    "unknown coding": OK + b"Transfer-Encoding: xchunked\r\n" + CHUNKS,
    "chunks of HTTP/1.0": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + CHUNKED + CHUNKS,
    "identity coding": OK + b"Transfer-Encoding: identity\r\n\r\nhello",
    "space before colon": OK + b"Content-Length : 5\r\n\r\nhello",
    "folded header": OK + b"A: b\r\n c\r\n" + LENGTH + b"\r\nhello",
    "folded first header": OK + b" A: b\r\n" + LENGTH + b"\r\nhello",
    "line feed alone": OK + b"A: b\n" + LENGTH + b"\r\nhello",
    "line feeds only": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "carriage return alone": OK + b"A: b\rc\r\n" + LENGTH + b"\r\nhello",
    "nul in header": OK + b"A: b\0c\r\n" + LENGTH + b"\r\nhello",
    "header without colon": OK + b"Abc\r\n" + LENGTH + b"\r\nhello",
    "header without name": OK + b": x\r\n" + LENGTH + b"\r\nhello",
    "bad header name": OK + b"A(b: x\r\n" + LENGTH + b"\r\nhello",
    "space after chunk size": OK + CHUNKED + b"\r\n5 \r\nhello\r\n0\r\n\r\n",
    "prefix of chunk size": OK + CHUNKED + b"\r\n0x5\r\nhello\r\n0\r\n\r\n",
    "negative chunk size": OK + CHUNKED + b"\r\n-5\r\nhello\r\n0\r\n\r\n",
    "line feed after chunk size": OK + CHUNKED + b"\r\n5\nhello\r\n0\r\n\r\n",
    "line feed in chunk extension": OK + CHUNKED + b"\r\n5;a\nb\r\nhello\r\n0\r\n\r\n",
    "chunk longer than its size": OK + CHUNKED + b"\r\n4\r\nhello\r\n0\r\n\r\n",
    "huge chunk size": OK + CHUNKED + b"\r\nffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "length after chunks": OK + CHUNKED + b"\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
    "no status line": b"hello",
    "empty lines before": b"\r\n\r\n" + OK + LENGTH + b"\r\nhello",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\n" + LENGTH + b"\r\nhello",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\n" + LENGTH + b"\r\nhello",
    "RTSP": b"RTSP/1.0 200 OK\r\n" + LENGTH + b"\r\nhello",
    "ICE": b"ICE/1.0 200 OK\r\n" + LENGTH + b"\r\nhello",
    "two spaces before status": b"HTTP/1.1  200 OK\r\n" + LENGTH + b"\r\nhello",
    "status 0": b"HTTP/1.1 000 OK\r\n" + LENGTH + b"\r\nhello",
    "status of two digits": b"HTTP/1.1 99 OK\r\n" + LENGTH + b"\r\nhello",
    "status of four digits": b"HTTP/1.1 1000 OK\r\n" + LENGTH + b"\r\nhello",
    "other protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello",
    "huge header": OK + b"A: " + b"x" * 2 * MAX_HEAD_BYTES,
    "many headers": OK + b"A: b\r\n" * MAX_HEAD_BYTES,
    "huge interim answers": b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" * MAX_HEAD_BYTES,
    "huge trailer": OK + CHUNKED + b"\r\n5\r\nhello\r\n0\r\nA: " + b"x" * 2 * MAX_HEAD_BYTES,
    "huge chunk extension": OK + CHUNKED + b"\r\n5;a=" + b"x" * 2 * MAX_HEAD_BYTES,
}
# Answers that are read. The connection is used again only if their end is certain and nothing follows.
READ = {
    "length": (OK + LENGTH + b"\r\nhello", True),
    "chunks": (OK + CHUNKED + CHUNKS, True),
    "chunk extension": (OK + CHUNKED + b"\r\n5;a=b\r\nhello\r\n0\r\n\r\n", True),
    "trailers": (OK + CHUNKED + b"\r\n5\r\nhello\r\n0\r\nX-Late: 1\r\n\r\n", True),
    "interim answers": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nX-Late: 1\r\n\r\n" + OK + LENGTH + b"\r\nhello",
        True,
    ),
    "no reason": (b"HTTP/1.1 200\r\n" + LENGTH + b"\r\nhello", True),
    "upgrade offered": (OK + b"Upgrade: h2c\r\nConnection: upgrade\r\n" + LENGTH + b"\r\nhello", True),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + LENGTH + b"\r\nhello", False),
    "close": (OK + b"Connection: close\r\n" + LENGTH + b"\r\nhello", False),
    "more bytes": (OK + LENGTH + b"\r\nhelloEXTRA", False),
    "more bytes after chunks": (OK + CHUNKED + CHUNKS + b"X", False),
    "second answer": (OK + LENGTH + b"\r\nhello" + OK + LENGTH + b"\r\nother", False),
    "second answer after close": (
        OK + b"Connection: close\r\n" + LENGTH + b"\r\nhello" + OK + LENGTH + b"\r\nother",
        False,
    ),
}


async def ask(site: KeptSite, method: str = "GET", key: str = "") -> tuple[bytes, str | None]:
    async with exchange(Request(method, site.url()), site.policy(), Secrets(key=key), resolve=HOME) as answer:
        return await answer.read(), answer.header("x-late")


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
async def test_answer_with_uncertain_meaning_fails_and_closes_its_connection(data: bytes) -> None:
    async with serve_kept(always(data)) as site:
        with pytest.raises(EgressFailed, match="did not speak HTTP") as failure:
            await ask(site, "POST")
        await asyncio.wait_for(site.closed.wait(), 2)
    assert failure.value.sent
    assert len(site.requests) == 1


@pytest.mark.parametrize(("data", "is_used_again"), READ.values(), ids=READ)
@pytest.mark.parametrize("size", [1, 1_000_000], ids=["by byte", "whole"])
async def test_connection_is_used_again_only_after_a_certain_end(
    data: bytes, is_used_again: bool, size: int
) -> None:
    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(data), size):
            writer.write(data[start : start + size])
            await asyncio.sleep(0)

    async with serve_kept(handle) as site:
        answers = [await ask(site) for _ in range(2)]
    assert answers == [(b"hello", None)] * 2
    if size > 1 or is_used_again:
        assert [heard.connection for heard in site.requests] == [0, 0 if is_used_again else 1]


async def test_bytes_without_a_request_close_the_connection() -> None:
    poison = asyncio.Event()

    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"own"))
        if len(site.requests) == 1:
            await poison.wait()
            writer.write(response(b"poison"))

    async with serve_kept(handle) as site:
        assert (await ask(site))[0] == b"own"
        poison.set()
        await asyncio.wait_for(site.closed.wait(), 2)
        assert (await ask(site))[0] == b"own"
    assert [heard.connection for heard in site.requests] == [0, 1]


@pytest.mark.parametrize("is_reset", [False, True])
async def test_body_without_length_ends_only_with_a_closed_connection(is_reset: bool) -> None:
    received = asyncio.Event()

    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\nhello")
        await received.wait()
        if is_reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async with (
        serve_kept(handle) as site,
        exchange(Request("GET", site.url()), site.policy(), resolve=HOME) as answer,
    ):
        chunks = answer.chunks()
        assert await anext(chunks) == b"hello"
        received.set()
        if is_reset:
            with pytest.raises(EgressFailed, match="broke off"):
                await anext(chunks)
        else:
            assert await anext(chunks, None) is None


async def test_chunks_that_arrive_together_are_read_together() -> None:
    data = OK + CHUNKED + b"\r\n" + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n"
    async with (
        serve_kept(always(data)) as site,
        exchange(Request("GET", site.url()), site.policy(), resolve=HOME) as answer,
    ):
        chunks = [chunk async for chunk in answer.chunks()]
    assert b"".join(chunks) == b"x" * 5_000
    assert len(chunks) < 50


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_head_has_no_body_whatever_its_length_is(method: str) -> None:
    """The bytes after the head are not the answer to the next request."""
    data = OK + LENGTH + b"\r\n" + b"hello" * (method == "GET")
    async with serve_kept(always(data)) as site:
        bodies = [(await ask(site, method))[0] for _ in range(2)]
    assert bodies == [b"hello" if method == "GET" else b""] * 2
    assert site.connections == 1


async def test_server_waits_while_its_body_is_not_read() -> None:
    size, chunk, written = 64 * MAX_WAITING_BYTES, 64 * 1024, 0

    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        while written < size:
            writer.write(b"x" * chunk)
            written += chunk
            await writer.drain()

    async with serve_kept(handle) as site:
        policy = site.policy(max_raw_bytes=size, max_bytes=size)
        async with exchange(Request("GET", site.url()), policy, resolve=HOME) as answer:
            before = -1
            while before != written:
                before = written
                for _ in range(100):
                    await asyncio.sleep(0)
            assert before < size
            assert len(await answer.read()) == size


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("GET", "/ HTTP/1.1\r\nX: 1", (("Host", "a"),)),
        ("GET", "/a b", (("Host", "a"),)),
        ("GET", "/\n", (("Host", "a"),)),
        ("GET", "/é", (("Host", "a"),)),
        ("GET", "", (("Host", "a"),)),
        ("get", "/", (("Host", "a"),)),
        ("GET /", "/", (("Host", "a"),)),
        ("GET", "/", (("Host", "a\r\nX: 1"),)),
        ("GET", "/", (("Host", "a\n"),)),
        ("GET", "/", (("Host: a\r\nX", "1"),)),
        ("GET", "/", (("Ho st", "a"),)),
        ("GET", "/", (("", "a"),)),
        ("GET", "/", (("Host", "a\0"),)),
        ("GET", "/", ()),
    ],
)
def test_head_keeps_its_structure(method: str, target: str, headers: tuple[tuple[str, str], ...]) -> None:
    with pytest.raises(ValueError, match="not the head"):
        request_head(method, target, headers)


async def test_answer_leaves_no_cycle_of_objects() -> None:
    async with serve_kept(always(response())) as site:
        await ask(site)
        gc.collect()
        gc.disable()
        try:
            for _ in range(10):
                await ask(site)
            parsers = [each for each in gc.get_objects() if type(each).__name__ == "HttpResponseParser"]
        finally:
            gc.enable()
    assert len(parsers) <= 1


async def test_idle_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_IDLE", 2)
    async with serve_kept(always(response())) as site:
        for key in ("a", "b", "c", "c", "b", "a"):
            await ask(site, key=key)
        kept = await connections.kept()
        assert len(kept.idle) == len(kept.by_key) == 2
    assert [heard.connection for heard in site.requests] == [0, 1, 2, 2, 1, 3]
