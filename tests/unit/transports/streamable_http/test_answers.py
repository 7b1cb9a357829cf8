"""Complete HTTP responses: headers and lengths."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from mcp_app.protocol.errors import InvalidParams, McpError, TooManyRequests, Unauthorized
from mcp_app.transports.streamable_http.answers import send_body, send_error


class Sent:
    """Recorded ASGI messages."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def headers(self) -> dict[bytes, bytes]:
        pairs = list(self.messages[0]["headers"])
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)


@pytest.mark.requirement("T-POST-17")
@pytest.mark.parametrize("size", [1, 4095, 4096, 100_000])
async def test_body_has_type_length_and_no_cache(size: int) -> None:
    sent = Sent()
    await send_body(sent, 200, b"x" * size, ((b"x-more", b"1"),))
    assert sent.headers == {
        b"content-type": b"application/json",
        b"cache-control": b"no-cache, no-transform",
        b"content-length": b"%d" % size,
        b"x-more": b"1",
    }
    assert sent.messages[1] == {"type": "http.response.body", "body": b"x" * size}


@pytest.mark.parametrize(("status", "length"), [(202, b"0"), (200, b"0"), (204, None)])
async def test_empty_response_has_no_type_and_204_has_no_length(status: int, length: bytes | None) -> None:
    sent = Sent()
    await send_body(sent, status, b"")
    assert sent.messages[0]["status"] == status
    assert sent.headers.get(b"content-length") == length
    assert b"content-type" not in sent.headers


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (Unauthorized(challenge='Bearer realm="mcp"'), 401, (b"www-authenticate", b'Bearer realm="mcp"')),
        (TooManyRequests(retry_after=2.5), 429, (b"retry-after", b"3")),
        (InvalidParams("wrong", http_status=400), 400, (b"content-type", b"application/json")),
    ],
)
async def test_error_response_has_body_and_required_headers(
    error: McpError, status: int, header: tuple[bytes, bytes]
) -> None:
    sent = Sent()
    await send_error(sent, error)
    assert sent.messages[0]["status"] == status
    assert sent.headers[header[0]] == header[1]
    assert b'"error"' in sent.messages[1]["body"]
