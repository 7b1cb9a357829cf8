"""Requests of 2026-07-28, which are independent. Headers and ``_meta`` are checked in one fixed order."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.errors import (
    HeaderMismatch,
    InvalidRequest,
    McpError,
    MethodNotAllowed,
    MethodNotFound,
    UnsupportedVersion,
    fitted,
    http_status_for,
)
from mcp_app.protocol.features.subscriptions import METHOD as LISTEN
from mcp_app.protocol.http import param_headers, routing_headers
from mcp_app.protocol.messages import envelope, idempotency, jsonrpc
from mcp_app.protocol.messages.trace_context import from_headers
from mcp_app.protocol.versions import V2026_07_28, is_modern
from mcp_app.sessions.exchange import Exchange
from mcp_app.transports.open_streams import Connections
from mcp_app.transports.streamable_http.answers import Headers, Send, send_body
from mcp_app.transports.streamable_http.exchange_stream import ExchangeStream
from mcp_app.transports.streamable_http.listen_stream import ListenStream
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.sse_response import Authenticated
from mcp_app.transports.subscriptions import Subscriptions

Fields = dict[bytes, bytes]
Scope = MutableMapping[str, Any]
Body = jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid]


class Modern:
    """The handling of messages of the modern era."""

    def __init__(self, process: Process, connections: Connections) -> None:
        self._process = process
        self._dispatcher = process.dispatcher
        self._connections = connections
        self._subscriptions = Subscriptions(process)
        self._versions = process.settings.versions
        self._served = frozenset(filter(is_modern, self._versions))

    def takes(self, fields: Fields, message: Body) -> bool:
        """Return True for a message of this era, if the settings enable a modern revision."""
        if not self._served:
            return False
        params = message.params if isinstance(message, jsonrpc.Request | jsonrpc.Notification) else {}
        return envelope.names_modern(fields, params)

    def is_named(self, fields: Fields) -> bool:
        """Return True if the headers name a revision of this era."""
        return envelope.header_version(fields) in self._served

    def refuse_verb(self, fields: Fields) -> None:
        """Raise MethodNotAllowed for a GET or DELETE of this era (ERA-09, T-MOD-10)."""
        if self.is_named(fields):
            raise MethodNotAllowed(allow="POST")

    async def post(
        self,
        scope: MutableMapping[str, Any],
        fields: Fields,
        receive: Receive,
        send: Send,
        message: Body,
        body: bytes,
        opener: Authenticated,
        catalogue: CatalogueView,
        extra: Headers,
    ) -> None:
        """Serve one POST body (specification: basic/transports, 2026-07-28)."""
        principal = opener.principal
        try:
            if isinstance(message, jsonrpc.Notification):
                self._take_in(fields, message, body, principal)
                await send_body(send, 202, b"", extra)
                return
            if not isinstance(message, jsonrpc.Request):
                raise InvalidRequest("The body must be one request or one notification.")
            exchange = self.admit(fields, message, principal, catalogue)
            if idempotency.HEADER in fields:
                idempotency.from_header(message, fields)
            asked = CallerContext(self._process, exchange, principal, catalogue)
            answer = self._dispatcher.quick(asked, message, body)
            if answer is not None:
                self._process.clients.report(exchange, principal.user_id, address_of(scope))
                await send_body(send, 200, answer, extra)
                return
            if message.method == LISTEN:
                listener = ListenStream(self._process, self._connections, opener, self._subscriptions)
                await listener.open(asked, message, body, address_of(scope))
        except McpError as error:
            await self._refuse(send, error, message, body, principal, catalogue, extra)
            return
        if message.method == LISTEN:
            await listener.run(scope, receive, send, extra)
            return
        self._process.clients.report(exchange, principal.user_id, address_of(scope))
        reply = await self._dispatcher.exchange(asked, message, body, from_headers(fields))
        await self.answer(scope, receive, send, exchange, message, reply, opener, extra)

    async def answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        exchange: Exchange,
        message: jsonrpc.Request,
        reply: ExchangeReply,
        opener: Authenticated,
        extra: Headers,
    ) -> None:
        """Send the messages and the answer of the reply. If the client disconnects first, cancel the call."""
        stream = ExchangeStream(self._process, self._connections, opener, reply)
        done = False
        try:
            done = await stream.run(scope, receive, send, exchange.record_id, extra)
        except McpError as error:
            error.request_id = message.id  # T-MOD-12
            raise
        finally:
            reply.close()
            # A keyed call continues without its client, which may repeat the request (decision 0049).
            if not idempotency.is_keyed(message) and (reply.failed or not (done or reply.answered)):
                await self._dispatcher.abandon(exchange, message.id)

    def admit(
        self, fields: Fields, request: jsonrpc.Request, principal: Principal, catalogue: CatalogueView
    ) -> Exchange:
        """Apply the checks of ERA-10 between parser and handler in their order, and return the exchange."""
        params, method = request.params, request.method
        if catalogue.server.removed:
            raise catalogue.server.absence()
        if routing_headers.agree(fields, method, params):
            said = envelope.read(params)
        else:
            routing_headers.check_values(fields)
            said = envelope.read(params)
            routing_headers.check(fields, said.version, method, params)
        if said.version not in self._served:
            raise UnsupportedVersion(requested=said.version, supported=self._versions)
        if method == "tools/call":
            _check_arguments(fields, params, catalogue)
        if method not in self._dispatcher.methods[said.version] and method != LISTEN:
            raise MethodNotFound(f"Method not found: {method[:128]}")
        return Exchange(said, principal.key, catalogue.server)

    def _take_in(
        self, fields: Fields, message: jsonrpc.Notification, body: bytes, principal: Principal
    ) -> None:
        """Log and drop a notification, because client notifications have no effect in this era (T-MOD-06)."""
        routing_headers.check_values(fields)
        version = envelope.header_version(fields)
        if not version:
            raise HeaderMismatch("The header MCP-Protocol-Version is missing.")
        if version not in self._served:
            raise UnsupportedVersion(requested=version, supported=self._versions)
        self._process.log.single(None, principal.key, "in", "notification", body, message.method)

    async def _refuse(
        self,
        send: Send,
        error: McpError,
        message: Body,
        body: bytes,
        principal: Principal,
        catalogue: CatalogueView,
        extra: Headers,
    ) -> None:
        """Send the error for a message that was refused before a handler ran (ERA-08, T-MOD-12)."""
        request = message if isinstance(message, jsonrpc.Request) else None
        known = fitted(error, V2026_07_28)
        encoded = jsonrpc.encode_error(known, request.id if request else None)
        if request is not None:
            self._dispatcher.refused(principal, catalogue, request, body, encoded)
        await send_body(send, http_status_for(known, V2026_07_28), encoded, (*error.headers, *extra))


def address_of(scope: MutableMapping[str, Any]) -> str:
    """Return the network address of a request's sender, as the ASGI server reports it."""
    return scope["client"][0] if scope.get("client") else ""


def _check_arguments(fields: Fields, params: dict[str, Any], catalogue: CatalogueView) -> None:
    """Raise HeaderMismatch if headers and arguments of a tool call differ (XMH-07, XMH-08).

    Calls of unknown tools and wrong types are refused later.
    """
    name, arguments = params.get("name"), params.get("arguments", {})
    tool = catalogue.tool(name) if type(name) is str else None
    if tool is None or not tool.param_headers or type(arguments) is not dict:
        return
    if problem := param_headers.mismatch(tool.param_headers, fields, arguments):
        raise HeaderMismatch(problem)
