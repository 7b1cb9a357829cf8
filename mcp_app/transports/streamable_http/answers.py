"""Sending of complete HTTP answers: a JSON body or an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp_app.protocol.errors import McpError
from mcp_app.protocol.messages import jsonrpc

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")
# T-POST-17: caches must not store an answer, and proxies must not rewrite it.
NO_CACHE = (b"cache-control", b"no-cache, no-transform")
# AUTH-25: a challenge is valid for one client at one time, so it must not be stored at all.
NO_STORE = (b"cache-control", b"no-store, no-transform")
NEVER_STORED = frozenset((401, 403))
_LENGTHS = tuple((b"content-length", b"%d" % size) for size in range(4096))


async def send_body(send: Send, status: int, body: bytes, extra: Headers = ()) -> None:
    """Send one JSON body, or an empty answer without a media type."""
    size = len(body)
    cache = NO_CACHE if status not in NEVER_STORED else NO_STORE
    length = _LENGTHS[size] if size < len(_LENGTHS) else (b"content-length", b"%d" % size)
    if body:
        headers = [JSON, cache, length, *extra]
    else:
        # RFC 9110 section 8.6: a response with status 204 must not have a Content-Length.
        headers = [cache, *extra] if status == 204 else [cache, length, *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: McpError, extra: Headers = ()) -> None:
    """Send an error as an HTTP answer, which always has a body (ERA-08)."""
    await send_body(send, error.http_status, jsonrpc.encode_error(error), (*error.headers, *extra))
