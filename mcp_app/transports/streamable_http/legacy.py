"""Requests of 2025-03-26 to 2025-11-25: POST, GET and DELETE within a session.

A broken connection does not cancel a request.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import ACCEPTED, Answered, StreamReference
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol import dialects
from mcp_app.protocol.errors import Conflict, InvalidRequest, Refused, SessionNotFound
from mcp_app.protocol.features.subscriptions import CANCELLED
from mcp_app.protocol.http import event_id, interim_headers
from mcp_app.protocol.messages import idempotency, jsonrpc
from mcp_app.protocol.messages.envelope import VERSION, VERSION_HEADER, header_version
from mcp_app.protocol.messages.trace_context import from_headers
from mcp_app.protocol.versions import LEGACY, V2025_03_26, is_modern
from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.base import StreamsError
from mcp_app.transports import unanswered_requests

SESSION_HEADER = b"mcp-session-id"
ENDED = Answered(b"")
ENDED_BY_CLIENT = "ended by the client"
UNKNOWN_EVENT = "This Last-Event-ID names no stream of this session, or one no longer kept."
NO_SESSION = (
    "No session: send the Mcp-Session-Id header that 'initialize' returned, or send 'initialize' first."
)

log = logging.getLogger("mcp.http")
Fields = dict[bytes, bytes]


class Legacy:
    """The handling of requests of the legacy era."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._dispatcher = process.dispatcher
        self._sessions = process.sessions
        routing = process.settings.routing_headers
        self._compares = routing != dialects.OFF
        self._strict = routing == dialects.STRICT
        # True if no modern revision is served. Otherwise ``Modern`` takes all modern messages.
        self._alone = not any(map(is_modern, process.settings.versions))

    async def post(
        self,
        fields: Fields,
        message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid],
        body: bytes,
        principal: Principal,
        catalogue: CatalogueView,
        address: str,
    ) -> tuple[Answered | StreamReference, LiveSession | None]:
        """Serve one POST body (specification: basic/transports, sending messages to the server)."""
        self.check(fields, message, catalogue)
        dispatcher = self._dispatcher
        if isinstance(message, jsonrpc.Request) and message.method == "initialize":
            # SES-12: a session id in the headers is ignored, because initialize always opens a new session.
            return await dispatcher.initialize(principal, catalogue, message, body, address), None
        path = catalogue.server.path
        session = self.known(fields, principal, path) or await self._load(fields, principal, path)
        asked = CallerContext(self._process, session, principal, catalogue)
        if isinstance(message, jsonrpc.Request):
            if idempotency.HEADER in fields:
                idempotency.from_header(message, fields)
            return await dispatcher.request(asked, message, body, from_headers(fields)), session
        if isinstance(message, list):
            if session.version != V2025_03_26:
                raise InvalidRequest("Batches belong to revision 2025-03-26 only: send one message per POST.")
            return await dispatcher.batch(asked, message, from_headers(fields)), session
        if isinstance(message, jsonrpc.Notification):
            if message.method == CANCELLED and not self._process.settings.answer_cancelled:
                await unanswered_requests.record(
                    self._process.streams, session.id, message.params.get("requestId")
                )
            await dispatcher.notification(session, message, body)
        else:
            await dispatcher.response(session, message, body)
        return ACCEPTED, session

    async def end(self, session: LiveSession) -> Answered:
        """End a session at its client's request, and return the answer."""
        await self._dispatcher.end_session(session, ENDED_BY_CLIENT)
        # SES-06 leaves the status open. It is 200, because older clients report a 204 as a failure.
        return ENDED

    def check(
        self,
        fields: Fields,
        message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid],
        catalogue: CatalogueView,
    ) -> None:
        """Raise McpError for a message that no session accepts (ERA-08, DLG-002-01)."""
        if catalogue.server.removed:
            raise catalogue.server.absence()
        if self._alone:
            _refuse_modern(fields, message)
        routed = self._strict or (
            self._compares and (interim_headers.METHOD in fields or interim_headers.NAME in fields)
        )
        if routed and isinstance(message, jsonrpc.Request | jsonrpc.Notification):
            self._check_routing(fields, message, catalogue)

    def _check_routing(
        self, fields: Fields, message: jsonrpc.Request | jsonrpc.Notification, catalogue: CatalogueView
    ) -> None:
        interim_headers.check(fields, message, strict=self._strict)
        if isinstance(message, jsonrpc.Request) and message.method == "tools/call":
            name = message.params.get("name")
            tool = catalogue.tool(name) if type(name) is str else None
            if tool is not None:
                schema = tool.wire["inputSchema"]
                interim_headers.check_params(fields, message, schema, strict=self._strict)

    def known(self, fields: Fields, principal: Principal, path: str) -> LiveSession | None:
        """Return the session that a request to ``path`` names, or None if it is not in this process's memory.

        Raises Refused (400) for a request without a session id, and SessionNotFound for a session of another
        transport or server.
        """
        named = fields.get(SESSION_HEADER)
        if named is None:
            raise Refused(NO_SESSION)
        session = self._sessions.cached(named.decode("latin-1"), principal.key)
        return None if session is None else _agreed(session, fields, path)

    async def _load(self, fields: Fields, principal: Principal, path: str) -> LiveSession:
        """Load the session that a request names. Raises SessionNotFound."""
        named = fields[SESSION_HEADER].decode("latin-1")
        return _agreed(await self._sessions.load(named, principal.key), fields, path)

    async def get(
        self, fields: Fields, principal: Principal, path: str
    ) -> tuple[LiveSession, StreamReference, str]:
        """Return the stream that a GET asks for, and the token of its lease on the standalone stream."""
        check_version(fields)
        session = self.known(fields, principal, path) or await self._load(fields, principal, path)
        last = fields.get(b"last-event-id")
        if last is not None:
            return await self._resume(session, last)
        token = secrets.token_hex(8)
        if not await self._process.standalone.listen(session, token, take_over=False):
            raise Conflict("This session's standalone stream is already open; resume it with Last-Event-ID.")
        async with self._lease(session, token):
            position = await self._process.standalone.position(session)
        return session, StreamReference(STANDALONE, *position), token

    async def _resume(self, session: LiveSession, last: bytes) -> tuple[LiveSession, StreamReference, str]:
        """Return the stream that the event id names, if it belongs to this session (T-RES-03 to T-RES-05)."""
        position = event_id.parse(last.decode("latin-1"))
        head = await self._process.streams.log.head(session.id, position.stream)
        known = head is not None and head.epoch == position.epoch and head.offset >= position.offset
        if not known and position.stream == STANDALONE:
            return await self._afresh(session)
        if head is None or head.epoch != position.epoch:
            return await self._restored(session, position.stream)
        if await self._process.background.complete(session.id, position.stream):
            # If Redis was restored to an earlier state, the client's position may be past the end (R12).
            position = replace(position, offset=min(position.offset, head.offset))
        elif head.offset < position.offset:
            raise event_id.InvalidEventId(UNKNOWN_EVENT)
        token = ""
        if position.stream == STANDALONE:
            token = secrets.token_hex(8)
            async with self._lease(session, token):
                await self._process.standalone.listen(session, token, take_over=True)
                await self._process.standalone.catch_up(session)
        self._log_resumed(session, last, head.offset - position.offset)
        reference = StreamReference(position.stream, position.epoch, position.offset, head.offset)
        return session, reference, token

    async def _afresh(self, session: LiveSession) -> tuple[LiveSession, StreamReference, str]:
        """Return the standalone stream to a client whose event id has an earlier epoch.

        The epoch changes if Redis is emptied or restored. If the id were refused, the client could repeat the
        request without end. Each session has one standalone stream, so the id can only open that stream.
        """
        token = secrets.token_hex(8)
        async with self._lease(session, token):
            await self._process.standalone.listen(session, token, take_over=True)
            position = await self._process.standalone.position(session)
        return session, StreamReference(STANDALONE, *position, gap=True), token

    def _log_resumed(self, session: LiveSession, last: bytes, replayed: int) -> None:
        """Record in the message log that the client resumed a stream after a lost connection."""
        mark = jsonrpc.encode({"Last-Event-ID": last.decode("latin-1"), "replayed": replayed})
        self._process.log.single(session.id, session.principal_key, "in", "resumed", mark, "")

    async def _restored(self, session: LiveSession, stream: str) -> tuple[LiveSession, StreamReference, str]:
        """Return a stream that Redis lost (R12).

        The stream can be restored if its background call has the answer in the database, or if this process
        still writes the stream. Raises InvalidEventId for other streams.
        """
        if (session.id, stream) in self._dispatcher.writing:
            owner = session.principal_key
            epoch, _ = await self._process.streams.log.open(session.id, stream, owner=owner)
            return session, StreamReference(stream, epoch, 0, gap=True), ""
        found = await self._process.background.lost_stream(session.id, stream)
        if found is None:
            raise event_id.InvalidEventId(UNKNOWN_EVENT)
        name, start = found
        return session, StreamReference(name, start.epoch, start.offset), ""

    @asynccontextmanager
    async def _lease(self, session: LiveSession, token: str) -> AsyncIterator[None]:
        """Release the lease if its stream cannot be opened, so that the next connection can acquire it."""
        try:
            yield
        except StreamsError:
            await self._process.standalone.leave(session, token)
            raise

    async def delete(self, fields: Fields, principal: Principal, path: str) -> Answered:
        """End the session (SES-06)."""
        check_version(fields)
        return await self.end(
            self.known(fields, principal, path) or await self._load(fields, principal, path)
        )


def _agreed(session: LiveSession, fields: Fields, path: str) -> LiveSession:
    """Return the session if it may serve this request. Raises SessionNotFound otherwise."""
    if session.path != path:
        raise SessionNotFound
    if session.transport:
        raise SessionNotFound("This session belongs to the HTTP+SSE transport: POST to /messages/.")
    version = fields.get(VERSION_HEADER)
    if version is not None and version != session.version.encode() and not session.warned_version:
        # VER-06: the negotiated revision applies, even if the header names another revision.
        session.warned_version = True
        log.warning(
            "Session of %.40r sends version %.20r after negotiating %s",
            session.client_name,
            version,
            session.version,
        )
    return session


def _refuse_modern(
    fields: Fields, message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid]
) -> None:
    """Refuse a modern message with an error that makes the client fall back to initialize (ERA-08)."""
    check_version(fields, message.id if isinstance(message, jsonrpc.Request) else None)
    if isinstance(message, list | jsonrpc.Response):
        return
    meta = message.params.get("_meta")
    named = meta.get(VERSION) if type(meta) is dict else None
    if type(named) is str and is_modern(named):
        raise _unsupported(named, message.id if isinstance(message, jsonrpc.Request) else None)


def check_version(fields: Fields, request_id: str | int | None = None) -> None:
    """Raise Refused if the version header is not the name of a legacy revision (VER-04)."""
    if VERSION_HEADER in fields and is_modern(text := header_version(fields)):
        raise _unsupported(text, request_id)


def _unsupported(named: str, request_id: str | int | None) -> Refused:
    supported = ", ".join(LEGACY)
    words = f"Unsupported protocol version {named[:40]!r}. Send 'initialize' with one of: {supported}."
    return Refused(words, request_id=request_id)
