"""HTTP+SSE without a server: disabled, and below a root path."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import orjson
import pytest

from mcp_app.conf import Settings
from mcp_app.process import Process
from mcp_app.streams.gateway import Streams
from mcp_app.transports.http_sse.endpoint import HttpSse
from mcp_app.transports.streamable_http.endpoint import Endpoint
from tests.clients.event_parser import Parser

LOOPBACK = Settings(auth="loopback", loopback=True)


@pytest.mark.requirement("SSE1-07")
@pytest.mark.parametrize(("method", "path"), [("GET", "/sse"), ("POST", "/messages/"), ("POST", "/message")])
async def test_disabled_http_sse_returns_404_with_current_endpoint(method: str, path: str) -> None:
    settings = replace(LOOPBACK, http_sse=False)
    process = Process(Streams.in_memory(settings), settings)
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.disconnect"}

    headers = [(b"host", b"127.0.0.1:8000")]
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "client": ("127.0.0.1", 1)}
    await HttpSse(process, Endpoint(process))(scope, receive, send)
    assert sent[0]["status"] == 404
    assert "/mcp" in orjson.loads(sent[1]["body"])["error"]["message"]


@pytest.mark.requirement("SSE1-01", "T-SSE-08")
async def test_endpoint_event_is_percent_encoded_below_root_path() -> None:
    process = Process(Streams.in_memory(LOOPBACK), LOOPBACK)
    sent: list[bytes] = []
    started = asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("body", b""))
        if sent[-1]:
            started.set()

    async def receive() -> MutableMapping[str, Any]:
        await started.wait()
        return {"type": "http.disconnect"}

    headers = [(b"host", b"127.0.0.1:8000"), (b"accept", b"text/event-stream")]
    scope = {"type": "http", "method": "GET", "path": "/sse", "headers": headers, "client": ("127.0.0.1", 1)}
    await HttpSse(process, Endpoint(process))({**scope, "root_path": "/größe\u2028\n"}, receive, send)
    (event, *_) = Parser().feed(b"".join(sent))
    assert (event.data or b"").startswith(b"/gr%C3%B6%C3%9Fe%E2%80%A8%0A/messages/?session_id=")
