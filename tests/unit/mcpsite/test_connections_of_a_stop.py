"""A process that stops answers the client that has just connected, and closes what is idle."""

from __future__ import annotations

from typing import Any

import pytest

from mcpsite.http import connection
from tests.unit.mcpsite.one_connection import PATIENCE, connected

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answers everything."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_a_client_that_has_just_connected_is_answered_and_its_connection_ends(
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


async def test_a_client_that_sends_nothing_is_waited_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 0.01)
    async with connected(application) as client:
        client.end.shutdown()
        assert await client.is_closed()


async def test_a_connection_that_is_kept_for_more_requests_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "ARRIVAL_SECONDS", 2 * PATIENCE)
    async with connected(application) as client:
        assert b"connection: close" not in await client.answer(REQUEST, b"ok")
        client.end.shutdown()
        assert await client.is_closed()
