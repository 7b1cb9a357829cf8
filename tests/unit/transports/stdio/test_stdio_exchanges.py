"""2026-07-28 requests over stdio."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from mcp_app.auth.principal import LOOPBACK
from mcp_app.protocol.messages import jsonrpc
from mcp_app.streams.gateway import Streams
from mcp_app.transports.stdio.exchanges import Exchanges
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Server
from tests.unit.transports.streamable_http.modern import Desk, meta


async def test_progress_arriving_during_write_precedes_answer() -> None:
    streams = Streams.in_memory()
    await streams.start()
    server, desk = Server(streams), Desk()
    asked.offer(desk)
    written: list[Any] = []
    answered = asyncio.Event()

    async def write(frame: bytes) -> None:
        written.append(orjson.loads(frame))
        desk.go_on.set()
        # The pipe is full until the call ends, when its last progress and its answer are available.
        while server.process.calls.running:
            await asyncio.sleep(0)
        if "result" in written[-1]:
            answered.set()

    exchanges = Exchanges(
        server.process,
        LOOPBACK,
        lambda: server.process.views.of(LOOPBACK.permissions),
        write,
        end=lambda: None,
    )
    params = {"name": "slow", "_meta": meta(progressToken="p")}
    request = jsonrpc.Request(1, "tools/call", params)
    await exchanges.begin(request, jsonrpc.encode_request(1, "tools/call", params))
    async with asyncio.timeout(30):
        await answered.wait()
    progress = [message["params"]["progress"] for message in written[:-1]]
    assert progress == sorted(progress)
    assert len(progress) == 2
    await exchanges.close()
