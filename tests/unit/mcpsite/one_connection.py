"""One client of an application over the HTTP connection class, and the server side of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from mcpsite.http.connection import BoundedConnection

PATIENCE = 30.0
KEPT_SECONDS = 75


class Client:
    """One connection and its server side."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: BoundedConnection
    ) -> None:
        self.reader, self.writer, self.end = reader, writer, end

    async def answer(self, request: bytes, last: bytes) -> bytes:
        """Return the response to one request, up to the ``last`` bytes of its body."""
        self.writer.write(request)
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(last)

    async def is_closed(self) -> bool:
        """Return True if the connection closes within the test timeout."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read() == b""


@asynccontextmanager
async def connected(
    application: Any, kind: type[BoundedConnection] = BoundedConnection
) -> AsyncIterator[Client]:
    """Return a client that has sent nothing."""
    config = uvicorn.Config(application, log_config=None, timeout_keep_alive=KEPT_SECONDS)
    config.load()
    state, loop = uvicorn.server.ServerState(), asyncio.get_running_loop()
    server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
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
