"""A connection whose last request took the short cut is closed when it waits too long for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from mcpsite.http.quick import QuickAnswers

BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
REQUEST = b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
KEPT_SECONDS = 75
PATIENCE = 30.0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Nothing gets as far as this."""
    raise AssertionError(scope)


class Client:
    """One connection, and the server's side of it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: QuickAnswers) -> None:
        self.reader, self.writer, self.end = reader, writer, end

    async def ask(self) -> bytes:
        """Send a request; its answer."""
        self.writer.write(REQUEST)
        return await self.reader.readuntil(b"pong")

    async def is_closed(self) -> bool:
        """Whether nothing more comes, by the end of all patience."""
        return await self.reader.read() == b""

    def wait(self, seconds: float) -> None:
        """Have the server look at the connection that much later."""
        self.end.close_if_idle(asyncio.get_running_loop().time() + seconds)


@asynccontextmanager
async def connected(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client of a server that answers everything at once."""
    monkeypatch.setattr(QuickAnswers, "quick", staticmethod(lambda headers, body, address: b"pong"))
    config = uvicorn.Config(application, log_config=None, timeout_keep_alive=KEPT_SECONDS)
    config.load()
    state, loop = uvicorn.server.ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: QuickAnswers(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    async with asyncio.timeout(PATIENCE):
        while not state.connections:
            await asyncio.sleep(0)
        (end,) = state.connections
        assert isinstance(end, QuickAnswers)
        yield Client(reader, writer, end)
    writer.close()
    server.close()


async def test_it_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as client:
        await client.ask()
        client.wait(KEPT_SECONDS - 1)
        await client.ask()
        client.wait(KEPT_SECONDS + 1)
        assert await client.is_closed()


async def test_what_is_no_request_does_not_keep_it_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as client:
        await client.ask()
        client.end.data_received(b"\r\n")
        client.wait(KEPT_SECONDS + 1)
        assert await client.is_closed()


async def test_one_whose_next_request_has_begun_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(monkeypatch) as client:
        await client.ask()
        client.writer.write(REQUEST[:10])
        while client.end.idle_since is not None:
            await asyncio.sleep(0)
        client.wait(KEPT_SECONDS + 1)
        client.writer.write(REQUEST[10:])
        assert await client.reader.readuntil(b"pong")
