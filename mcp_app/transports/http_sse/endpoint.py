"""The endpoints /sse and /messages/, which admit requests like /mcp.

A further server has /sse/<name> and /messages/<name>. The GET opens the session, and POSTs send its
messages. Every answer is stored as its own stream, and the session's standalone stream refers to it. A POST
may therefore reach any process, and not only the process that writes the event stream (SSE1-04).
"""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import parse_qs, quote

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import Answered, StreamReference
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol import dialects
from mcp_app.protocol.errors import (
    Forbidden,
    InvalidRequest,
    McpError,
    NotAcceptable,
    Refused,
    SessionNotFound,
)
from mcp_app.protocol.features.subscriptions import CANCELLED
from mcp_app.protocol.http.headers import accepts_sse
from mcp_app.protocol.messages import idempotency, jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT, MESSAGES, SSE, further_path, own_path
from mcp_app.protocol.messages.trace_context import from_headers
from mcp_app.protocol.versions import V2024_11_05, V2025_03_26
from mcp_app.sessions.quota import answer_too_large
from mcp_app.sessions.session import HTTP_SSE, STANDALONE, LiveSession, stored_fields
from mcp_app.streams.base import FOLLOW, QuotaExceeded
from mcp_app.transports import unanswered_requests
from mcp_app.transports.http_sse.event_stream import HttpSseStream, encode_reference
from mcp_app.transports.streamable_http.answers import NO_CACHE, Headers, Send
from mcp_app.transports.streamable_http.endpoint import Endpoint, Scope, opener_of
from mcp_app.transports.streamable_http.legacy import Fields
from mcp_app.transports.streamable_http.modern import address_of
from mcp_app.transports.streamable_http.request_body import Receive

# DLG-000-07: early clients use this path. Its parameter ``id`` is the session id that the server issued.
ALIAS_PATH = "/message"
OFF = "The HTTP+SSE transport is switched off (HTTP_SSE). Connect to /mcp."
NO_SESSION = "Name the session: POST to the address that the 'endpoint' event of GET /sse gave."
NOT_INITIALIZED = "Server not initialized: send 'initialize' first."
INITIALIZED = "This connection is initialized already: open a new one with GET /sse."
NO_BATCH = "Batches belong to the revisions up to 2025-03-26: send one message per POST."
ACCEPTED_HEADERS = [(b"content-type", b"text/plain; charset=utf-8"), NO_CACHE, (b"content-length", b"8")]
ENDED = "the HTTP+SSE connection ended"

# The content of a POST that gets an answer: one request, or a batch.
Posted = jsonrpc.Request | list[jsonrpc.Message | jsonrpc.Invalid]


class HttpSse:
    """An ASGI callable that serves HTTP+SSE in one process."""

    def __init__(self, process: Process, endpoint: Endpoint) -> None:
        """Create the transport. ``endpoint`` provides admission and counts the connections."""
        self._process = process
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if own_path(scope["path"]) == SSE:
            await self._endpoint.serve({"GET": self._get}, "GET, OPTIONS", scope, receive, send)
        else:
            await self._endpoint.serve({"POST": self._post}, "POST, OPTIONS", scope, receive, send)

    async def _get(self, scope: Scope, fields: Fields, receive: Receive, send: Send, extra: Headers) -> None:
        principal, catalogue = await self._admitted(scope, fields)
        if not accepts_sse(fields.get(b"accept")):
            raise NotAcceptable("The Accept header must allow 'text/event-stream'.")
        self._endpoint.connections.admit(principal.key)
        process = self._process
        announced, path = catalogue.revision, catalogue.server.path
        made = stored_fields(
            principal.key, V2024_11_05, {}, {}, announced=announced, transport=HTTP_SSE, path=path
        )
        session = await process.sessions.create(made)
        token = secrets.token_hex(8)
        try:
            await process.standalone.listen(session, token, take_over=True)
            epoch, _ = await process.streams.log.open(session.id, STANDALONE)
            await HttpSseStream(
                process,
                self._endpoint.connections,
                opener_of(principal, fields, scope),
                session,
                messages_path=quote(scope.get("root_path", "") + _messages_path(path)),
            ).run(scope, receive, send, StreamReference(STANDALONE, epoch, 0), token, extra)
        finally:
            # SSE1-06: the session ends with its connection, because it cannot be resumed.
            await process.dispatcher.end_session(session, ENDED)

    async def _post(self, scope: Scope, fields: Fields, receive: Receive, send: Send, extra: Headers) -> None:
        principal, catalogue = await self._admitted(scope, fields)
        session = await self._session(scope, principal, catalogue.server.path)
        message, body = await self._endpoint.message(fields, receive, answers=False)
        self._endpoint.check_scopes(principal, message, fields, scope)
        if isinstance(message, jsonrpc.Notification):
            if message.method == CANCELLED:
                await unanswered_requests.record(
                    self._process.streams, session.id, message.params.get("requestId")
                )
            await self._process.dispatcher.notification(session, message, body)
        elif isinstance(message, jsonrpc.Response):
            await self._process.dispatcher.response(session, message, body)
        else:
            if isinstance(message, jsonrpc.Request):
                idempotency.from_header(message, fields)
            asked = CallerContext(self._process, session, principal, catalogue)
            # Every answer is stored until it is read, so without room not even an error can be sent.
            await self._process.dispatcher.admit(asked, message if isinstance(message, list) else [message])
            await self._answer(asked, session, message, body, address_of(scope), from_headers(fields))
        headers = [*ACCEPTED_HEADERS, *extra]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b"Accepted"})

    async def _admitted(self, scope: Scope, fields: Fields) -> tuple[Principal, CatalogueView]:
        """Return the sender of a request, and the sender's view of the server that the path names."""
        if not self._process.settings.http_sse:
            raise Refused(OFF, http_status=404)
        if scope["path"] == ALIAS_PATH and dialects.EARLY_ADDRESS not in self._process.settings.dialects:
            raise Refused(NO_SESSION, http_status=404)
        principal = await self._endpoint.principal(fields, scope)
        if principal.bench:
            raise Forbidden("A token of the test bench is good for /mcp only.")
        path = further_path(scope["path"]) or ENDPOINT
        catalogue = self._process.views.of(principal.permissions, path)
        if catalogue.server.removed:
            raise self._endpoint.absence(principal, catalogue.server, fields, scope)
        return principal, catalogue

    async def _session(self, scope: Scope, principal: Principal, path: str) -> LiveSession:
        """Return the session named by the query.

        Raise Refused (400) if the query names no session. Raise SessionNotFound if the session is unknown or
        belongs to another server.
        """
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        named = query.get("session_id") or (scope["path"] == ALIAS_PATH and query.get("id"))
        if not named:
            raise Refused(NO_SESSION)
        sessions = self._process.sessions
        session = sessions.cached(named[0], principal.key)
        if session is not None and not session.client_info:
            session.checked_at = 0.0  # Load the session again: another process may have initialized it.
            session = None
        if session is None:
            session = await sessions.load(named[0], principal.key)
        if session.transport != HTTP_SSE:
            raise SessionNotFound("This session belongs to /mcp: send the Mcp-Session-Id header there.")
        if session.path != path:
            raise SessionNotFound
        return session

    async def _answer(
        self,
        asked: CallerContext,
        session: LiveSession,
        message: Posted,
        body: bytes,
        address: str,
        trace_fields: dict[str, str] | None,
    ) -> None:
        """Append the answer to a request or batch to the event stream (SSE1-03)."""
        request_id = message.id if isinstance(message, jsonrpc.Request) else None
        try:
            outcome = await self._outcome(asked, session, message, body, address, trace_fields)
        except McpError as error:
            # Clients of this transport wait for the event, and few check the response to the POST.
            outcome = Answered(jsonrpc.encode_error(error, request_id))
        if isinstance(outcome, Answered):
            if not outcome.body:
                return
            outcome = await self._stored(session, message, outcome.body)
        await self._process.streams.log.append(session.id, STANDALONE, encode_reference(outcome), kind=FOLLOW)

    async def _outcome(
        self,
        asked: CallerContext,
        session: LiveSession,
        message: Any,
        body: bytes,
        address: str,
        trace_fields: dict[str, str] | None,
    ) -> Answered | StreamReference:
        process = self._process
        if isinstance(message, list):
            if not session.client_info:
                raise InvalidRequest(NOT_INITIALIZED)
            if session.version > V2025_03_26:
                raise InvalidRequest(NO_BATCH)
            return await process.dispatcher.batch(asked, message, trace_fields)
        if message.method == "initialize":
            if session.client_info:
                raise InvalidRequest(INITIALIZED)
            return await process.dispatcher.initialize(
                asked.principal, asked.catalogue, message, body, address, session, V2024_11_05
            )
        if not session.client_info and message.method != "ping":
            raise InvalidRequest(NOT_INITIALIZED)
        return await process.dispatcher.request(asked, message, body, trace_fields)

    async def _stored(self, session: LiveSession, message: Posted, body: bytes) -> StreamReference:
        """Store an answer as a finished stream.

        If the answer were stored on the session's shared stream, it could be trimmed before it is read.
        """
        name = "post-" + secrets.token_hex(9)
        log = self._process.streams.log
        try:
            position = await log.finish(session.id, name, body, owner=session.principal_key)
        except QuotaExceeded:
            position = await log.finish(session.id, name, _without_room(message), owner=session.principal_key)
        if position is None:
            raise SessionNotFound
        return StreamReference(name, position.epoch, 0)


def _messages_path(path: str) -> str:
    """Return the path of messages to the server at ``path``."""
    return f"{MESSAGES}/{path.removeprefix(ENDPOINT).removeprefix('/')}"


def _without_room(message: Posted) -> bytes:
    """Return the errors that replace an answer that is too large to store."""
    if isinstance(message, jsonrpc.Request):
        return jsonrpc.encode_error(answer_too_large(), message.id)
    requests = (member for member in message if isinstance(member, jsonrpc.Request))
    return b"[" + b",".join(jsonrpc.encode_error(answer_too_large(), each.id) for each in requests) + b"]"
