"""Answers in the one form that a client accepts: a stream's answer as JSON, or a JSON body as a stream."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import orjson

from mcp_app.protocol.errors import Unavailable
from mcp_app.protocol.http import sse
from mcp_app.protocol.messages import jsonrpc
from mcp_app.transports.streamable_http.answers import JSON, Send, send_body

EVENT_STREAM = (b"content-type", b"text/event-stream")
LOST = "The server closed this answer before it was complete. Send the request again."


class AsJson:
    """A ``send`` of ASGI that keeps the responses of an event stream and sends them as one body.

    Messages other than responses have no place in it and are left out.
    """

    def __init__(self, send: Send, *, batch: bool) -> None:
        self._send = send
        self._batch = batch
        self._headers: tuple[tuple[bytes, bytes], ...] | None = None
        self._responses: list[bytes] = []

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Take one message of the application."""
        if message["type"] == "http.response.start" and EVENT_STREAM in message["headers"]:
            kept = (b"mcp-session-id", b"access-control-", b"vary")
            self._headers = tuple([pair for pair in message["headers"] if pair[0].startswith(kept)])
        elif self._headers is None:
            await self._send(message)
        else:
            self._responses += _responses(message.get("body", b""))
            if not message.get("more_body"):
                await self._finish(self._headers)

    async def _finish(self, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        if not self._responses:
            error = Unavailable(LOST)
            await send_body(
                self._send, error.http_status, jsonrpc.encode_error(error), (*error.headers, *headers)
            )
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
        """Take one message of the application."""
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
    """Return the responses among the whole events of one piece of a stream."""
    found = []
    for event in chunk.split(b"\n\n"):
        lines = [line[6:] for line in event.split(b"\n") if line.startswith(b"data: ")]
        data = b"\n".join(lines)
        if data and "method" not in orjson.loads(data):
            found.append(data)
    return found
