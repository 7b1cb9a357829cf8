"""The endpoint of one process, driven as an ASGI server would, without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import orjson

from mcp_app.conf import Settings
from mcp_app.process import Process
from mcp_app.streams.gateway import Streams
from mcp_app.transports.streamable_http.shortcut.quick_endpoint import QuickEndpoint
from tests.clients.event_parser import Parser, ServerSentEvent

LOOPBACK = Settings(auth="loopback", loopback=True, message_log=False)
Pairs = list[tuple[bytes, bytes]]
POST = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


class Exchange:
    """One request and the endpoint's response to it."""

    def __init__(
        self, endpoint: Any, method: str, headers: Pairs, body: bytes, address: str, path: str = "/mcp"
    ) -> None:
        path, _, query = path.partition("?")
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "client": (address, 40000),
        }
        self._body: bytes | None = body
        self.gone = asyncio.Event()
        self.stalled: asyncio.Event | None = None
        self.broken = False
        self.sent: list[MutableMapping[str, Any]] = []
        self.progress = asyncio.Event()
        self.task = asyncio.create_task(endpoint(self.scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self.broken:
            raise ConnectionResetError
        if self.stalled is not None:
            await self.stalled.wait()
        self.sent.append(message)
        self.progress.set()

    async def done(self) -> Exchange:
        """Wait for the end of the response."""
        async with asyncio.timeout(10):
            await self.task
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def events(self) -> list[ServerSentEvent]:
        return Parser().feed(self.body)

    @property
    def messages(self) -> list[Any]:
        return [orjson.loads(event.data) for event in self.events if event.data]

    @property
    def is_complete(self) -> bool:
        """Return True if the response was terminated properly, not just cut off."""
        return self.task.done() and not self.sent[-1].get("more_body", False)

    async def until(self, text: bytes) -> None:
        """Wait until the response contains ``text``."""
        async with asyncio.timeout(10):
            while text not in self.body:
                self.progress.clear()
                await self.progress.wait()


class Server:
    """One process; several may share streams."""

    def __init__(self, streams: Streams, settings: Settings = LOOPBACK, **changes: Any) -> None:
        self.process = Process(streams, replace(settings, **changes))
        self.process.sessions.start()
        self.endpoint = QuickEndpoint(self.process)
        # Receives the requests: the endpoint, or a router that a test puts in front of it.
        self.application: Any = self.endpoint

    def send(
        self,
        method: str = "POST",
        message: Any = None,
        *,
        headers: dict[str, str | None] | None = None,
        more: Pairs | None = None,
        body: bytes | None = None,
        address: str = "127.0.0.1",
        path: str = "/mcp",
    ) -> Exchange:
        """Start a request; None as a header value omits the header."""
        merged = {**POST, **(headers or {})}
        pairs = [(name.encode(), value.encode()) for name, value in merged.items() if value is not None]
        if body is None:
            body = orjson.dumps(message) if message is not None else b""
        return Exchange(self.application, method, pairs + (more or []), body, address, path)

    async def initialize(
        self, version: str = "2025-11-25", *, ready: bool = True, path: str = "/mcp"
    ) -> dict[str, str | None]:
        """Open a session; return the headers of its later requests."""
        opened = await self.send(message=request("initialize", hello(version)), path=path).done()
        headers: dict[str, str | None] = {"mcp-session-id": opened.headers[b"mcp-session-id"].decode()}
        if ready:
            told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await self.send(message=told, headers=headers, path=path).done()).status == 202
        return headers

    def listen(self, headers: dict[str, str | None], last: str | None = None, path: str = "/mcp") -> Exchange:
        """Start reading the standalone stream, or the stream of an event id."""
        return self.send("GET", headers={**headers, "last-event-id": last}, path=path)


def hello(version: str = "2025-11-25") -> dict[str, Any]:
    """Return the params of ``initialize``."""
    client = {"name": "tests", "version": "1"}
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": client}


def request(method: str, params: dict[str, Any] | None = None, request_id: Any = 1) -> dict[str, Any]:
    """Return a JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
