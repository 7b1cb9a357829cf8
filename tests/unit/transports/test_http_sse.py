"""HTTP+SSE switched off."""

from __future__ import annotations

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

LOOPBACK = Settings(auth="loopback", loopback=True)


@pytest.mark.requirement("SSE1-07")
@pytest.mark.parametrize(("method", "path"), [("GET", "/sse"), ("POST", "/messages/"), ("POST", "/message")])
async def test_switched_off_it_is_not_there_and_says_where_to_go(method: str, path: str) -> None:
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
