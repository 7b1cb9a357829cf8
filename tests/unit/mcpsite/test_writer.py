"""A stream whose chunks are written immediately, alongside ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp_app.transports.streamable_http import sse_response
from mcpsite.http.connection import WRITER
from tests.unit.mcpsite.one_connection import PATIENCE, connected

REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
# Larger than the buffers of a socket.
LARGE = b"x" * 32 * 1024 * 1024
Send = Callable[[dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def answer_of(work: Callable[[Any, Send], Awaitable[None]]) -> AsyncIterator[asyncio.StreamReader]:
    """Return the response to a request answered by ``work``, given the writer of the scope and ``send``."""

    async def application(scope: Any, receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await work(scope["extensions"][WRITER], send)
        await send({"type": "http.response.body", "body": b""})

    async with connected(application) as client, asyncio.timeout(PATIENCE):
        client.writer.write(REQUEST)
        yield client.reader


async def test_written_chunks_keep_order_with_sent_messages() -> None:
    async def work(writer: Any, send: Send) -> None:
        write = writer(send)
        assert write(b"one")
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        assert write(b"x" * 17)

    async with answer_of(work) as reader:
        body = (await reader.readuntil(b"\r\n0\r\n\r\n")).partition(b"\r\n\r\n")[2]
    assert body == b"3\r\none\r\n3\r\ntwo\r\n11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"


async def test_chunk_is_not_written_while_transport_is_full() -> None:
    refused: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def work(writer: Any, send: Send) -> None:
        await send({"type": "http.response.body", "body": LARGE, "more_body": True})
        refused.set_result(not writer(send)(b"too early"))

    async with answer_of(work) as reader:
        assert await refused
        received = b"".join([await reader.read(1024 * 1024) for _ in range(len(LARGE) // 1024 // 1024)])
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += await reader.read(1024 * 1024)
    assert b"too early" not in received


async def test_chunk_after_response_end_is_not_written() -> None:
    writers = []

    async def work(writer: Any, send: Send) -> None:
        writers.append(writer(send))
        await send({"type": "http.response.body", "body": b"all", "more_body": True})

    async with answer_of(work) as reader:
        assert (await reader.readuntil(b"\r\n0\r\n\r\n")).endswith(b"\r\n\r\n3\r\nall\r\n0\r\n\r\n")
        assert not writers[0](b"too late")


async def test_wrapped_send_has_no_writer() -> None:
    found = []

    async def work(writer: Any, send: Send) -> None:
        async def compressed(message: dict[str, Any]) -> None:
            await send(message)

        found.append(writer(compressed))

    async with answer_of(work) as reader:
        await reader.readuntil(b"0\r\n\r\n")
    assert found == [None]


def test_service_and_server_share_writer_key() -> None:
    assert sse_response.WRITER == WRITER
