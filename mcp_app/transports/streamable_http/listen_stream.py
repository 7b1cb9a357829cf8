"""Writing of a subscription of 2026-07-28 to a connection, until either side ends it.

An idle subscription costs little. Its only task is the request's task, which waits for the client to
disconnect and is interrupted for notifications.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from typing import Any

from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.errors import McpError, Unavailable
from mcp_app.protocol.http import sse
from mcp_app.protocol.messages import jsonrpc
from mcp_app.transports.open_streams import Connections, StreamReader
from mcp_app.transports.streamable_http.answers import Headers, Send
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.sse_response import (
    Authenticated,
    ClientStalled,
    SseResponse,
    disconnected,
)
from mcp_app.transports.subscriptions import Subscriptions

GONE = "the client disconnected"
STALLED = "the client stopped reading"
NOT_ALLOWED = "the credential ended"
ENDED = "the server ended it"

log = logging.getLogger("mcp.stream")


class ListenStream(SseResponse):
    """The writer of a subscription to a connection. Call ``open``, then ``run``."""

    __slots__ = (
        "_acknowledgement",
        "_connection",
        "_nap",
        "_subscription",
        "_subscriptions",
        "_woken",
    )

    def __init__(
        self, process: Process, connections: Connections, opener: Authenticated, subscriptions: Subscriptions
    ) -> None:
        super().__init__(process, connections, opener)
        self._subscriptions = subscriptions
        self._nap: asyncio.Timeout | None = None
        self._woken = False

    async def open(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        address: str,
    ) -> None:
        """Subscribe. Raises TooManyRequests or InvalidParams, which can still be sent as a plain answer."""
        principal = self._principal
        self._connections.admit(principal.key)
        self._subscription, self._acknowledgement = await self._subscriptions.open(
            asked, request, payload, address, self.notify
        )
        self._connection = StreamReader(
            asked.session.id, principal.key, standalone=False, wake=self.wake, listening=True
        )
        self._connections.add(self._connection)

    async def run(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send, extra: Headers = ()
    ) -> None:
        """Write notifications until the client disconnects or the server ends the subscription."""
        reason = GONE
        try:
            await self._begin(scope, send, extra)
            await self._write(sse.encode_event(self._acknowledgement))
            reason = await self._write_due(receive)
            if reason != GONE:
                await self._write(sse.encode_event(self._subscriptions.closing(self._subscription)))
                await self._end()
        except ClientStalled:
            reason = STALLED
            log.info("A client stopped reading its subscription and was disconnected")
        except OSError:
            pass  # ASGI: send() raises OSError if the client has disconnected.
        finally:
            self._connections.remove(self._connection)
            self._subscriptions.close(self._subscription, reason)

    def wake(self) -> None:
        """Wake the task, which writes pending notifications or ends the subscription."""
        self._woken = True
        if self._nap is not None:
            nap, self._nap = self._nap, None
            if not nap.expired():  # The timeout may already have expired in this turn of the event loop.
                nap.reschedule(0.0)

    def notify(self) -> None:
        """Write pending notifications synchronously if possible, or wake the task to write them."""
        clear = self._nap is not None and self._unfinished is None and not self._connection.stopping
        if not clear or self._connection.stale or self._is_check_due():
            self.wake()
            return
        due = self._due()
        if self._subscription.removed or (due and not self._write_at_once(due)):
            self.wake()

    def _due(self) -> bytes:
        return b"".join([sse.encode_event(each) for each in self._subscriptions.take(self._subscription)])

    async def _write_due(self, receive: Receive) -> str:
        """Write notifications as they become due. Return the reason for the end of the subscription."""
        while True:
            await self._finish()
            if due := self._due():
                await self._write(due)
            if self._connection.stopping or self._subscription.removed:
                return ENDED
            if not await self._is_still_allowed():
                return NOT_ALLOWED
            if self._pause() <= 0.0:
                await self._write(sse.KEEP_ALIVE)
            if not await self._rest(receive):
                return GONE

    async def _rest(self, receive: Receive) -> bool:
        """Wait for a wake-up or the next check. Return False if the client has disconnected."""
        if not self._woken:
            try:
                async with asyncio.timeout(max(self._pause(), 0.0)) as self._nap:
                    await disconnected(receive)
            except TimeoutError:
                pass
            else:
                return False
            finally:
                self._nap = None
        self._woken = False
        return True

    async def _is_still_allowed(self) -> bool:
        """Authenticate again if that is due, and return False if it fails (SUB-10, S5)."""
        if self._is_expired():
            return False
        if not self._is_check_due() and not self._connection.stale:
            return True
        self._connection.stale = False
        self._record_activity(self._subscription.id)
        try:
            principal = await self._authenticate()
        except Unavailable:
            return True  # The check is not possible now. A short outage must not disconnect every listener.
        except McpError:
            return False
        self._principal = self._subscription.principal = principal
        return principal.key == self._connection.principal_key and not self._subscription.check_removed()
