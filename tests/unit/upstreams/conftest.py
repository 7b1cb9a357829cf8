"""Our own server as an upstream, over real sockets, and a state without earlier sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mcp_app import Context, ToolError
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.protocol.versions import SERVED
from mcp_app.streams.gateway import Streams
from mcp_app.upstreams.server import UpstreamServer
from tests.servers.asgi_site import served
from tests.servers.upstream_state import forget_upstreams
from tests.unit.catalogue.entries import tool_entry
from tests.unit.transports.streamable_http.asgi import LOOPBACK, Server


class Upstream:
    """A running server with tools that count, report, wait, ask and fail. It records its requests."""

    def __init__(self, server: Server) -> None:
        self.server, self.origin = server, ""
        self.requests: list[tuple[str, dict[bytes, bytes]]] = []
        self.sessions: dict[str, int] = {}
        self.waiting, self.stopped = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests.append((scope["method"], dict(scope["headers"])))
        await self.server.endpoint(scope, receive, send)

    def settings(self, **changes: Any) -> UpstreamServer:
        usual: dict[str, Any] = {"pk": 1, "name": "other", "url": f"{self.origin}/mcp", "seconds": 10.0}
        return UpstreamServer(**{**usual, **changes})

    @property
    def session_ids(self) -> set[bytes]:
        return {headers[b"mcp-session-id"] for _, headers in self.requests if b"mcp-session-id" in headers}

    async def steps(self, ctx: Context, number: int) -> str:
        """Report each step."""
        for step in range(1, number + 1):
            ctx.progress(step, number, f"step {step}")
        ctx.warning("done soon")
        return f"{number} steps"

    async def counter(self, ctx: Context) -> str:
        """Count the calls of a session."""
        await asyncio.sleep(0)
        self.sessions[ctx.session_id] = self.sessions.get(ctx.session_id, 0) + 1
        return str(self.sessions[ctx.session_id])

    async def wait(self) -> str:
        """Wait until the call is cancelled."""
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return ""

    async def asking(self, ctx: Context) -> str:
        """Ask for the roots of the client."""
        return str(await ctx.aroots())

    async def failing(self) -> str:
        """Fail."""
        raise ToolError("Not today.")


@pytest.fixture(autouse=True)
def _fresh(settings: Any) -> Iterator[None]:
    """Allow loopback, and forget sessions, breakers and outcomes."""
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",), "REDIS_URL": ""}
    yield
    forget_upstreams()


@pytest.fixture(params=SERVED)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def upstream(version: str) -> AsyncIterator[Upstream]:
    """Run a server of one revision."""
    streams = Streams.in_memory()
    await streams.start()
    found = Upstream(Server(streams, LOOPBACK, versions=(version,)))
    functions: list[Any] = [found.steps, found.counter, found.wait, found.asking, found.failing]
    entries = [tool_entry(each, number) for number, each in enumerate(functions, 1)]
    before = current_snapshot.replace(
        Catalogue(revision=5, revisions=dict.fromkeys(KINDS, 5), tools=entries, page_size=2)
    )
    async with served(found) as found.origin:
        yield found
        found.server.endpoint.connections.drain()
    await found.server.process.calls.close(0.01)
    current_snapshot.replace(before)
