"""A connection without a further request is closed after a timeout."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpsite.http.connection import BoundedConnection
from mcpsite.http.quick import QuickAnswers
from tests.unit.mcpsite.one_connection import KEPT_SECONDS, PATIENCE, Client, connected

BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
REQUEST = b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
TOO_LONG = KEPT_SECONDS + 1

# On the ordinary path and on the shortcut.
pytestmark = pytest.mark.parametrize("kind", [BoundedConnection, QuickAnswers])


@pytest.fixture(autouse=True)
def _answers_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QuickAnswers, "quick", staticmethod(lambda headers, body, address, path: b"pong"))


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Answer every request."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"pong"})


def look_later(client: Client, seconds: float) -> None:
    """Let the server check the connection that much later."""
    client.end.close_if_idle(asyncio.get_running_loop().time() + seconds)


async def test_idle_connection_is_closed_after_timeout(kind: type[BoundedConnection]) -> None:
    async with connected(application, kind) as client:
        await client.answer(REQUEST, b"pong")
        look_later(client, KEPT_SECONDS - 1)
        await client.answer(REQUEST, b"pong")
        look_later(client, TOO_LONG)
        assert await client.is_closed()


async def test_blank_line_does_not_keep_connection_open(kind: type[BoundedConnection]) -> None:
    async with connected(application, kind) as client:
        await client.answer(REQUEST, b"pong")
        client.end.data_received(b"\r\n")
        look_later(client, TOO_LONG)
        assert await client.is_closed()


async def test_connection_with_partial_request_is_not_idle(kind: type[BoundedConnection]) -> None:
    async with connected(application, kind) as client:
        await client.answer(REQUEST, b"pong")
        client.end.data_received(REQUEST[:10])
        look_later(client, TOO_LONG)
        assert await client.answer(REQUEST[10:], b"pong")


async def test_connection_with_partial_request_before_answer_is_not_idle(
    kind: type[BoundedConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QuickAnswers, "quick", staticmethod(lambda headers, body, address, path: None))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await go_on.wait()
        await application(scope, receive, send)

    async with connected(slow, kind) as client:
        client.writer.write(REQUEST)
        async with asyncio.timeout(PATIENCE):
            await begun.wait()
        client.end.data_received(REQUEST[:10])
        go_on.set()
        await client.answer(b"", b"pong")
        look_later(client, TOO_LONG)
        assert await client.answer(REQUEST[10:], b"pong")
