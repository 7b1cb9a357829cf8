"""Requests of 2026-07-28 over stdio. They are independent, and each is answered as soon as it is ready.

Each message has its own revision (STDIO-09). There are no headers to compare with the message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_app.auth.challenges import check_scopes
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.errors import InvalidRequest, McpError, MethodNotFound, UnsupportedVersion, fitted
from mcp_app.protocol.features.subscriptions import METHOD as LISTEN
from mcp_app.protocol.features.subscriptions import cancelled
from mcp_app.protocol.messages import envelope, jsonrpc
from mcp_app.protocol.versions import V2026_07_28, is_modern
from mcp_app.sessions.exchange import Exchange
from mcp_app.transports.open_streams import Connections, StreamReader
from mcp_app.transports.subscriptions import Subscriptions

POLL_SECONDS = 60.0
ENDING_SECONDS = 1.0
ENDED = "the server ended it"
Write = Callable[[bytes], Awaitable[None]]

log = logging.getLogger("mcp.stdio")


class Exchanges:
    """The open modern requests of one client."""

    def __init__(
        self,
        process: Process,
        principal: Principal,
        catalogue: Callable[[], CatalogueView],
        write: Write,
        end: Callable[[], None],
    ) -> None:
        """Create the registry. ``end`` stops the whole server once the client has disconnected."""
        self._process = process
        self._principal = principal
        self._catalogue = catalogue
        self._write = write
        self._end = end
        self._versions = process.settings.versions
        self._served = frozenset(filter(is_modern, self._versions))
        self._subscriptions = Subscriptions(process)
        self._connections = Connections(process.settings.max_streams_per_principal)
        self._open: dict[jsonrpc.Id, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        process.sessions.on_end.append(self._connections.stop_session)

    def takes(self, message: jsonrpc.Request | jsonrpc.Notification) -> bool:
        """Return True if a message is modern and a modern revision is enabled."""
        return bool(self._served) and envelope.names_modern({}, message.params)

    async def begin(self, request: jsonrpc.Request, frame: bytes) -> None:
        """Start to serve a request. Refuse the request if another open request has the same id (RPC-04)."""
        catalogue = self._catalogue()
        try:
            if request.id in self._open:
                raise InvalidRequest("A request with this id is still being served.")
            exchange = self._admit(request, catalogue)
        except McpError as error:
            await self._refuse(error, catalogue, request, frame)
            return
        asked = CallerContext(self._process, exchange, self._principal, catalogue)
        self._process.clients.report(exchange, self._principal.user_id, "stdio")
        serve = self._listen if request.method == LISTEN else self._serve
        task = asyncio.ensure_future(serve(asked, request, frame))
        self._open[request.id] = task
        if serve == self._listen:
            self._listening.add(task)
        task.add_done_callback(lambda done: self._done(request.id, done))
        await asyncio.sleep(0)  # A cancel in the next frame must find the call (STDIO-11).

    def cancel(self, request_id: Any) -> bool:
        """Stop a request without an answer (STDIO-07, CAN-06). Return False if no request has this id."""
        task = self._open.get(request_id) if type(request_id) in (str, int) else None
        if task is None:
            return False
        task.cancel()
        return True

    async def close(self) -> None:
        """End subscriptions with their closing messages (CAN-07), and stop all other requests."""
        self._connections.drain()
        if self._listening:
            # The wait has a timeout, because the client may no longer read.
            await asyncio.wait(self._listening, timeout=ENDING_SECONDS)
        pending = list(self._open.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _done(self, request_id: jsonrpc.Id, task: asyncio.Task[None]) -> None:
        del self._open[request_id]
        self._listening.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("A request was not answered: %s", error)
            self._end()  # The client no longer reads.

    def _admit(self, request: jsonrpc.Request, catalogue: CatalogueView) -> Exchange:
        """Check the request in the order of ERA-10, without the checks of HTTP, and return its exchange."""
        if catalogue.server.removed:
            raise catalogue.server.absence()
        said = envelope.read(request.params)
        if said.version not in self._served:
            raise UnsupportedVersion(requested=said.version, supported=self._versions)
        if request.method not in self._process.dispatcher.methods[said.version] and request.method != LISTEN:
            raise MethodNotFound(f"Method not found: {request.method[:128]}")
        check_scopes(self._principal, request)
        return Exchange(said, self._principal.key, catalogue.server)

    async def _refuse(
        self, error: McpError, catalogue: CatalogueView, request: jsonrpc.Request, frame: bytes
    ) -> None:
        encoded = jsonrpc.encode_error(fitted(error, V2026_07_28), request.id)
        self._process.dispatcher.refused(self._principal, catalogue, request, frame, encoded)
        await self._write(encoded)

    async def _serve(self, asked: CallerContext, request: jsonrpc.Request, frame: bytes) -> None:
        reply: ExchangeReply | None = None
        try:
            reply = await self._process.dispatcher.exchange(asked, request, frame)
            # During a write, further messages and the answer may arrive.
            while not reply.is_plain:
                await reply.changed(POLL_SECONDS)
                for message in reply.take():
                    await self._write(message)
            await self._write(reply.answered)
        finally:
            if reply is not None:
                reply.close()
            if reply is None or not reply.answered:
                await self._process.dispatcher.abandon(asked.session, request.id)

    async def _listen(self, asked: CallerContext, request: jsonrpc.Request, frame: bytes) -> None:
        news = asyncio.Event()
        connection = StreamReader(
            asked.session.id, self._principal.key, standalone=False, wake=news.set, listening=True
        )
        try:
            self._connections.admit(self._principal.key)
            subscription, acknowledgement = await self._subscriptions.open(
                asked, request, frame, "stdio", news.set
            )
        except McpError as error:
            await self._refuse(error, asked.catalogue, request, frame)
            return
        self._connections.add(connection)
        reason = "the client cancelled it"
        try:
            await self._write(acknowledgement)
            while not connection.stopping:
                news.clear()
                for message in self._subscriptions.take(subscription):
                    await self._write(message)
                await news.wait()
            reason = ENDED
            await self._write(cancelled(request.id, ENDED))
            await self._write(self._subscriptions.closing(subscription))
        finally:
            self._connections.remove(connection)
            self._subscriptions.close(subscription, reason)
