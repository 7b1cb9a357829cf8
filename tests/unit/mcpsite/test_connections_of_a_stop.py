"""A process that stops answers the client that has just connected, and closes what is idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from mcpsite.http import connection
from mcpsite.http.connection import BoundedConnection

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"
PATIENCE = 30.0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers everything."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Client:
    """One connection, and the server's side of it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: BoundedConnection
    ) -> None:
        self.reader, self.writer, self.end = reader, writer, end

    async def answer(self) -> bytes:
        """What comes for one request."""
        self.writer.write(REQUEST)
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(b"ok")

    async def is_closed(self) -> bool:
        """Whether nothing more comes, by the end of all patience."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read() == b""


@asynccontextmanager
async def connected() -> AsyncIterator[Client]:
    """A client that has sent nothing."""
    config = uvicorn.Config(application, log_config=None)
    config.load()
    state, loop = uvicorn.server.ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: BoundedConnection(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    while not state.connections:
        await asyncio.sleep(0)
    (end,) = state.connections
    assert isinstance(end, BoundedConnection)
    try:
        yield Client(reader, writer, end)
    finally:
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()


async def test_a_client_that_has_just_connected_is_answered_and_its_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", PATIENCE)
    async with connected() as client:
        client.end.shutdown()
        client.end.shutdown()
        answer = await client.answer()
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        assert await client.is_closed()


async def test_a_client_that_sends_nothing_is_waited_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 0.01)
    async with connected() as client:
        client.end.shutdown()
        assert await client.is_closed()


async def test_a_connection_that_is_kept_for_more_requests_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 2 * PATIENCE)
    async with connected() as client:
        assert b"connection: close" not in await client.answer()
        client.end.shutdown()
        assert await client.is_closed()
