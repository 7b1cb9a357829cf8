"""A stopping process answers a client that has just connected, and closes idle connections."""

from __future__ import annotations

from typing import Any

import pytest

from mcpsite.http import connection
from tests.unit.mcpsite.one_connection import PATIENCE, connected

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_new_connection_is_answered_and_closed_during_shutdown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", PATIENCE)
    async with connected(application) as client:
        client.end.shutdown()
        client.end.shutdown()
        answer = await client.answer(REQUEST, b"ok")
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        assert await client.is_closed()


async def test_silent_new_connection_is_closed_after_brief_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 0.01)
    async with connected(application) as client:
        client.end.shutdown()
        assert await client.is_closed()


async def test_keep_alive_connection_is_closed_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 2 * PATIENCE)
    async with connected(application) as client:
        assert b"connection: close" not in await client.answer(REQUEST, b"ok")
        client.end.shutdown()
        assert await client.is_closed()
