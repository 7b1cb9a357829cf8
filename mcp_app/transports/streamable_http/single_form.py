"""Answers for clients that accept one form only: a stream as JSON, or a JSON body as a stream."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson

from mcp_app.protocol.errors import NotAcceptable, Unavailable
from mcp_app.protocol.http import sse
from mcp_app.transports.streamable_http.answers import JSON, Send, send_body, send_error

EVENT_STREAM = (b"content-type", b"text/event-stream")
# The maximum size of all answers to a batch, because they are collected in memory.
MOST_BYTES = 16 * 1024 * 1024
TOO_LARGE = "The answers are too large for one JSON body: accept 'text/event-stream', too."
LOST = "The server closed this answer before it was complete. Send the request again."


class AsJson:
    """A ``send`` of ASGI that keeps the responses of an event stream and sends them as one body.

    Messages other than responses are dropped, because the body can contain only responses.
    """

    def __init__(self, send: Send, *, batch: bool) -> None:
        self._send = send
        self._batch = batch
        self._headers: tuple[tuple[bytes, bytes], ...] | None = None
        self._responses: list[bytes] = []
        self._bytes = 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send or collect one ASGI message of the application."""
        if message["type"] == "http.response.start" and EVENT_STREAM in message["headers"]:
            kept = (b"mcp-session-id", b"access-control-", b"vary")
            self._headers = tuple([pair for pair in message["headers"] if pair[0].startswith(kept)])
        elif self._headers is None:
            await self._send(message)
        else:
            self._keep(_responses(message.get("body", b"")))
            if not message.get("more_body"):
                await self._finish(self._headers)

    def _keep(self, responses: list[bytes]) -> None:
        self._bytes += sum(map(len, responses))
        # The answers to a batch are bounded together. A single answer already has its own bound.
        self._responses = [] if self._is_too_large() else [*self._responses, *responses]

    def _is_too_large(self) -> bool:
        return self._batch and self._bytes > MOST_BYTES

    async def _finish(self, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        if self._is_too_large():
            await send_error(self._send, NotAcceptable(TOO_LARGE), headers)
        elif not self._responses:
            await send_error(self._send, Unavailable(LOST), headers)
        elif self._batch:
            await send_body(self._send, 200, b"[%b]" % b",".join(self._responses), headers)
        else:
            await send_body(self._send, 200, self._responses[0], headers)


class AsStream:
    """A ``send`` of ASGI that sends a JSON body of status 200 as an event stream of one event."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._whole = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send or collect one ASGI message of the application."""
        if (
            message["type"] == "http.response.start"
            and message["status"] == 200
            and JSON in message["headers"]
        ):
            self._whole = True
            headers = [pair for pair in message["headers"] if pair != JSON and pair[0] != b"content-length"]
            await self._send({**message, "headers": [EVENT_STREAM, *headers]})
        elif self._whole:
            await self._send({**message, "body": sse.encode_event(message["body"])})
        else:
            await self._send(message)


def _responses(chunk: bytes) -> list[bytes]:
    """Return the JSON-RPC responses in ``chunk``, which consists of complete events."""
    found = []
    for event in chunk.split(b"\n\n"):
        lines = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
        data = b"\n".join(lines)
        if data and "method" not in orjson.loads(data):
            found.append(data)
    return found
