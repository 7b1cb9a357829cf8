"""Writes the answer to one modern request: one JSON body, or a stream once something must come first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import MutableMapping
from typing import Any

import orjson

from mcp_app.auth.principal import Principal
from mcp_app.dispatcher import Dispatcher
from mcp_app.execution.exchange_reply import ExchangeReply
from mcp_app.protocol import sse
from mcp_app.protocol.errors import MODERN_STATUS, McpError, Unavailable, http_status_for
from mcp_app.protocol.versions import V2026_07_28
from mcp_app.transports.connections import Connection, Connections
from mcp_app.transports.streamable_http.answers import Headers, Send, send_body
from mcp_app.transports.streamable_http.event_stream import START_HEADERS, STREAMING, Stalled, disconnected
from mcp_app.transports.streamable_http.request_body import Receive

log = logging.getLogger("mcp.stream")


class ExchangeStream:
    """One modern request's writer. A client that goes away has cancelled its request (T-MOD-05)."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        connections: Connections,
        reply: ExchangeReply,
        principal: Principal,
        authorization: bytes | None,
        *,
        local: bool,
    ) -> None:
        self._settings = dispatcher.settings
        self._dispatcher = dispatcher
        self._connections = connections
        self._reply = reply
        self._principal = principal
        self._authorization = authorization
        self._local = local

    async def run(
        self,
        scope: MutableMapping[str, Any],
        receive: Receive,
        send: Send,
        exchange_id: str,
        extra: Headers = (),
    ) -> bool:
        """Answer; False when the client went away before, or may not be answered any more."""
        reply, self._send = self._reply, send
        gone = asyncio.ensure_future(disconnected(receive))
        gone.add_done_callback(lambda _: reply.wake())
        try:
            # T-SSE-05: as long as nothing was sent, an error can still have its status.
            if not reply.has_something:
                await reply.changed(self._settings.keep_alive_seconds)
            if reply.is_plain:
                headers = (*reply.error.headers, *extra) if reply.error else extra
                await send_body(send, _status(reply), reply.answered, headers)
                return True
            if gone.done():
                return False
            return await self._stream(scope, exchange_id, gone, extra)
        except Stalled:
            log.info("A client stopped reading the answer to its request and was cut off")
            return False
        except OSError:
            return False  # ASGI: send() says that the client went away.
        finally:
            gone.cancel()

    async def _stream(
        self, scope: MutableMapping[str, Any], exchange_id: str, gone: asyncio.Future[None], extra: Headers
    ) -> bool:
        reply = self._reply
        self._connections.admit(self._principal.key)
        connection = Connection(exchange_id, self._principal.key, standalone=False, wake=reply.wake)
        self._connections.add(connection)
        try:
            scope[STREAMING] = True
            headers = [*START_HEADERS, *extra]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._write(sse.KEEP_ALIVE)
            while not gone.done():
                chunks = [sse.encode_event(message) for message in reply.take()]
                if reply.answered:
                    chunks.append(sse.encode_event(reply.answered))
                if chunks:
                    await self._write(b"".join(chunks))
                if reply.answered:
                    await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                    return True
                if not await self._is_still_allowed():
                    return False
                await reply.changed(self._pause())
                if not reply.has_something and self._pause() <= 0:
                    await self._write(sse.KEEP_ALIVE)
            return False
        finally:
            self._connections.remove(connection)

    async def _write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise Stalled from None
        self._written = asyncio.get_running_loop().time()

    def _pause(self) -> float:
        """Seconds until the next keep-alive, or the end of the credential."""
        pause = self._written + self._settings.keep_alive_seconds - asyncio.get_running_loop().time()
        if self._principal.expires_at is not None:
            pause = min(pause, self._principal.expires_at - time.time())
        return max(pause, 0.0)

    async def _is_still_allowed(self) -> bool:
        """S5, AUTH-18: asked anew with each keep-alive; what nobody can tell now changes nothing."""
        if self._pause() > 0:
            return True
        try:
            await self._dispatcher.authenticator.authenticate(self._authorization, local=self._local)
        except Unavailable:
            return True
        except McpError:
            return False
        return True


def _status(reply: ExchangeReply) -> int:
    """T-MOD-08: the status of an answer that is all there is; only errors are looked into, they are few."""
    if reply.error is not None:
        return http_status_for(reply.error, V2026_07_28)
    if b'"error"' not in reply.answered:
        return 200
    error = orjson.loads(reply.answered).get("error")
    return MODERN_STATUS.get(error["code"], 200) if error else 200
