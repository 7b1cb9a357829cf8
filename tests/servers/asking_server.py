"""A scripted server of the legacy era whose tool asks a question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import orjson

from mcp_app.protocol.versions import V2025_11_25
from tests.servers.on_thread import on_thread
from tests.unit.egress.sites import Heard, response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTION: dict[str, Any] = {"message": "Who?", "requestedSchema": FORM}
TOOL: dict[str, Any] = {"name": "ask", "inputSchema": {"type": "object"}}


class Asker:
    """A server whose tool asks a question. ``answers`` are the client's, ``cancelled`` the ids of calls.

    ``deleted`` are the ended sessions.
    """

    def __init__(self, **params: Any) -> None:
        self.params = {**QUESTION, **params}
        self.method = "elicitation/create"
        self.capabilities: dict[str, Any] = {}
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.cancelled: asyncio.Queue[Any] = asyncio.Queue()
        self.deleted: asyncio.Queue[str | None] = asyncio.Queue()
        self.tool = TOOL
        self.writer: asyncio.StreamWriter
        self.call: Any = None
        self.sessions = count(1)
        self.url = ""
        self.loop: asyncio.AbstractEventLoop

    async def __call__(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        message = orjson.loads(heard.body) if heard.body else {}
        method = message.get("method")
        if method == "initialize":
            self.capabilities = message["params"]["capabilities"]
            told = {"protocolVersion": V2025_11_25, "capabilities": {"tools": {}}, "serverInfo": {}}
            writer.write(_result(message, told, f"Mcp-Session-Id: {next(self.sessions)}"))
        elif method == "tools/list":
            writer.write(_result(message, {"tools": [self.tool]}))
        elif method == "tools/call":
            self.writer, self.call = writer, message["id"]
            writer.write(HEAD)
            self.send(id=1, method=self.method, params=self.params)
            await writer.drain()
        else:
            if heard.line.startswith("DELETE"):
                self.deleted.put_nowait(heard.header("mcp-session-id"))
            if method == "notifications/cancelled":
                self.cancelled.put_nowait(message["params"]["requestId"])
            elif method is None:
                self.answers.put_nowait(message)
            writer.write(response(b"", status="202 Accepted"))

    def send(self, **message: Any) -> None:
        self.writer.write(b"data: " + orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n\n")

    def finish(self, text: str) -> None:
        self.send(id=self.call, result={"content": [{"type": "text", "text": text}]})
        self.writer.close()

    def cut(self) -> None:
        """Close the stream of the call, from another thread."""
        self.loop.call_soon_threadsafe(lambda: self.writer.close())

    def withdraw(self, text: str) -> None:
        """Withdraw the question and finish the call, from another thread."""

        def now() -> None:
            self.send(method="notifications/cancelled", params={"requestId": 1})
            self.finish(text)

        self.loop.call_soon_threadsafe(now)


def _result(message: Any, result: Any, *headers: str) -> bytes:
    return response(orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), *headers)


@contextmanager
def asking_server(asker: Asker) -> Iterator[None]:
    """Run the server on a thread."""
    with on_thread(asker) as (site, asker.loop):
        asker.url = f"http://127.0.0.1:{site.port}/mcp"
        yield
