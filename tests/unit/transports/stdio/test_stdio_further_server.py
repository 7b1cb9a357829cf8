"""A further server over stdio. A client selects it by path instead of by HTTP address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from mcp_app import servers
from mcp_app.auth.principal import LOOPBACK
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.messages.server import Server as McpServer
from mcp_app.streams.gateway import Streams
from mcp_app.transports.stdio.pipes import Pipes
from mcp_app.transports.stdio.server import StdioServer
from tests.unit.transports.streamable_http.asgi import Server, hello, request
from tests.unit.transports.streamable_http.modern import meta

PATH = "/mcp/toy"


class MemoryPipes(Pipes):
    """Pipes within the process."""

    def __init__(self) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = asyncio.Semaphore(16)  # type: ignore[assignment]
        self.written: asyncio.Queue[Any] = asyncio.Queue()

    async def write(self, data: bytes) -> None:
        self.written.put_nowait(orjson.loads(data))

    async def answer(self, message: Any) -> Any:
        self._chunks.put_nowait(orjson.dumps(message) + b"\n")
        async with asyncio.timeout(10):
            return await self.written.get()


@pytest.fixture(autouse=True)
def further(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, McpServer]]:
    """Register a further server, which the test may remove."""
    found = {PATH: McpServer("toy", "7", path=PATH)}
    monkeypatch.setattr(servers, "_providers", [])
    servers.register(lambda: found)
    before = current_snapshot.replace(Catalogue(revision=5, revisions=dict.fromkeys(KINDS, 5)))
    yield found
    current_snapshot.replace(before)


@pytest.mark.parametrize(("path", "named"), [(PATH, "toy"), ("/mcp", "")])
async def test_stdio_client_is_served_by_the_server_of_the_given_path(
    path: str, named: str, further: dict[str, McpServer]
) -> None:
    streams = Streams.in_memory()
    await streams.start()
    process, pipes = Server(streams).process, MemoryPipes()
    expected = named or process.views.server.name
    running = asyncio.create_task(StdioServer(process, LOOPBACK, pipes, path).run())
    opened = await pipes.answer(request("initialize", hello()))
    assert opened["result"]["serverInfo"]["name"] == expected
    modern = await pipes.answer(request("server/discover", {"_meta": meta()}, 2))
    assert modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == expected
    further.clear()
    for poke in process.catalogue_refresher.on_change:
        poke()
    if named:
        async with asyncio.timeout(10):
            await running
    else:
        assert (await pipes.answer(request("ping", request_id=3)))["id"] == 3
        pipes.end()
        await running


@pytest.mark.parametrize(("era", "number"), [("legacy", 10), ("modern", 20)])
async def test_requests_to_a_removed_server_are_refused_with_the_reason(
    era: str, number: int, further: dict[str, McpServer]
) -> None:
    streams = Streams.in_memory()
    await streams.start()
    process, pipes = Server(streams).process, MemoryPipes()
    running = asyncio.create_task(StdioServer(process, LOOPBACK, pipes, PATH).run())
    params: dict[str, Any] = {"_meta": meta()} if era == "modern" else {}
    if era == "legacy":
        await pipes.answer(request("initialize", hello()))
    assert "result" in await pipes.answer(request("tools/list", params, number))
    further[PATH] = McpServer("toy", "7", path=PATH, refusal="Not a member of Team.")
    answer = await pipes.answer(request("tools/list", params, number + 1))
    assert answer["error"]["message"] == "Not a member of Team."
    pipes.end()
    await running
