"""Writing of the answer to a modern request: a JSON body, or a stream if messages precede the answer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import MutableMapping
from typing import Any

import orjson

from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.process import Process
from mcp_app.protocol.errors import MODERN_STATUS, McpError, Unavailable, fitted, http_status_for
from mcp_app.protocol.http import sse
from mcp_app.protocol.versions import V2026_07_28
from mcp_app.transports.open_streams import Connections, StreamReader
from mcp_app.transports.streamable_http.answers import Headers, Send, send_body
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.sse_response import Authenticated, ClientStalled, SseResponse

# The time that a request still has when the process stops. Its answer cannot be resumed elsewhere.
STOPPING_SECONDS = 3.0

log = logging.getLogger("mcp.stream")


class ExchangeStream(SseResponse):
    """The writer of a modern answer. A client that disconnects cancels its request (T-MOD-05)."""

    def __init__(
        self, process: Process, connections: Connections, opener: Authenticated, reply: ExchangeReply
    ) -> None:
        super().__init__(process, connections, opener)
        self._reply = reply
        self._streaming = False

    async def run(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        record_id: str,
        extra: Headers = (),
    ) -> bool:
        """Send the answer. Return False if the client disconnected before it or may no longer receive it.

        Raises McpError if nothing has been sent yet, so that the error can have its HTTP status (T-SSE-05).
        """
        reply, self._send, self._extra = self._reply, send, extra
        if reply.is_plain:
            return await self._answer_plainly()
        self._connections.admit(self._principal.key)
        connection = StreamReader(
            record_id, self._principal.key, standalone=False, wake=reply.wake, answering=True
        )
        try:
            with self._registered(connection, receive) as gone:
                return await self._follow(scope, gone, connection)
        except ClientStalled:
            log.info("A client stopped reading its response and was disconnected")
            return False
        except OSError:
            return False  # ASGI: send() raises OSError if the client has disconnected.
        except McpError:
            if self._streaming:
                return False
            raise

    async def _answer_plainly(self) -> bool:
        reply = self._reply
        headers = (*reply.error.headers, *self._extra) if reply.error else self._extra
        await send_body(self._send, _status(reply), reply.answered, headers)
        return True

    async def _follow(
        self, scope: MutableMapping[str, Any], gone: asyncio.Future[None], connection: StreamReader
    ) -> bool:
        reply, clock = self._reply, time.monotonic
        stop_at = float("inf")
        while not gone.done():
            if reply.is_plain and not self._streaming:
                return await self._answer_plainly()
            await self._write_waiting(scope)
            if reply.answered:
                await self._end()
                return True
            if connection.stopping and stop_at > clock() + STOPPING_SECONDS:
                stop_at = clock() + STOPPING_SECONDS
            if clock() >= stop_at:
                reply.fail("The server is stopping. Send the request again.")
                continue
            if connection.stale or self._check_due() <= clock():
                connection.stale = False
                await self._check()
            await reply.changed(max(min(self._check_due(), self._keep_alive_due(), stop_at) - clock(), 0.01))
        return False

    async def _write_waiting(self, scope: MutableMapping[str, Any]) -> None:
        """Write pending messages. The first message, or a long silence, turns the answer into a stream."""
        chunks = [sse.encode_event(message) for message in self._reply.take()]
        if self._reply.answered:
            chunks.append(sse.encode_event(self._reply.answered))
        elif not chunks and self._keep_alive_due() <= time.monotonic():
            chunks.append(sse.KEEP_ALIVE)
        if not chunks:
            return
        if not self._streaming:
            self._streaming = True
            await self._begin(scope, self._send, self._extra)
        await self._write(b"".join(chunks))

    async def _check(self) -> None:
        """Authenticate again. Raises the error that a new request would get (S5, AUTH-18)."""
        try:
            self._principal = await self._authenticate()
        except Unavailable:
            # The check is not possible now. A short outage changes nothing, but an expired key stays expired.
            if self._is_expired():
                raise


def _status(reply: ExchangeReply) -> int:
    """Return the HTTP status of an answer that is sent as one JSON body (T-MOD-08)."""
    if reply.error is not None:
        return http_status_for(fitted(reply.error, V2026_07_28), V2026_07_28)
    if reply.outcome in ("ok", "tool_error") or b'"error"' not in reply.answered:
        return 200
    error = orjson.loads(reply.answered).get("error")
    return MODERN_STATUS.get(error["code"], 200) if error else 200
