"""Reads a request body within its limits, before anything else is done with it (T-POST-11, S10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp_app.protocol.errors import PayloadTooLarge, Refused

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class Disconnected(Exception):
    """The client went away before its request was complete."""


async def read_body(receive: Receive, content_length: bytes | None, limit: int, seconds: float) -> bytes:
    """The whole body, at most ``limit`` bytes within ``seconds``.

    Raises PayloadTooLarge (on the declared length, before a byte is read), Refused (408) for a body that
    dribbles in, and Disconnected.
    """
    if content_length is not None and (not content_length.isdigit() or int(content_length) > limit):
        raise PayloadTooLarge(f"The body is larger than {limit} bytes.")
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body: bytes = message.get("body", b"")
            if not message.get("more_body"):
                _within(len(body), limit)
                return body
            return await _rest(receive, body, limit)
    except TimeoutError:
        raise Refused(f"The body did not arrive within {seconds:g} seconds.", http_status=408) from None


async def _rest(receive: Receive, body: bytes, limit: int) -> bytes:
    chunks, size, more = [body], len(body), True
    while more:
        _within(size, limit)
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        more = message.get("more_body", False)
    _within(size, limit)
    return b"".join(chunks)


def _within(size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLarge(f"The body is larger than {limit} bytes.")
