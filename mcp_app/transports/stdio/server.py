"""A client over two pipes. Requests run concurrently, and each answer is sent as soon as it is ready.

Requests of older revisions share one session. Requests of 2026-07-28 do not use the session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from mcp_app.auth.challenges import check_scopes
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import Answered, StreamReference
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol import dialects
from mcp_app.protocol.errors import (
    InvalidRequest,
    McpError,
    RequestCancelled,
    SessionNotFound,
    Unavailable,
)
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.versions import V2024_11_05, V2025_03_26, V2025_11_25
from mcp_app.sessions.session import STANDALONE, LiveSession
from mcp_app.streams.base import CLOSE, StreamsError
from mcp_app.transports import list_changed
from mcp_app.transports.message_limits import message_limits
from mcp_app.transports.stdio.exchanges import Exchanges
from mcp_app.transports.stdio.framing import Framing
from mcp_app.transports.stdio.pipes import Pipes

POLL_SECONDS = 60.0
NOT_INITIALIZED = "Server not initialized: send 'initialize' first."
INITIALIZED = "This connection is initialized already."
CANCELLED = b'"error":{"code":%d,' % RequestCancelled.code
NO_BATCH = "Batches belong to the revisions up to 2025-03-26: send one message a line."

log = logging.getLogger("mcp.stdio")


class StdioServer:
    """The server of one client. It runs until end of file, ``exit``, a disconnection or the session's end."""

    def __init__(self, process: Process, principal: Principal, pipes: Pipes, path: str = ENDPOINT) -> None:
        """Create the server. ``path`` names the MCP server of the catalogue, like the address over HTTP."""
        self._process = process
        self._principal = principal
        self._pipes = pipes
        self._path = path
        settings = process.settings
        self._dialects = settings.dialects
        counted = dialects.CONTENT_LENGTH in settings.dialects
        self._framing = Framing(settings.max_body_bytes, counted=counted)
        self._limits = message_limits(settings)
        self._session: LiveSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[str | int | None] = set()
        self._silenced: set[str | int | None] = set()
        self._exchanges = Exchanges(process, principal, self._catalogue, self._write, pipes.end)
        process.sessions.on_end.append(self._ended)

    async def run(self) -> None:
        """Serve the client until its input ends, then stop its requests and end its session (STDIO-04)."""
        try:
            async for chunk in self._pipes.chunks():
                for frame in self._framing.feed(chunk):
                    await self._take(frame)
        finally:
            await self._exchanges.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._end_session()

    async def _end_session(self) -> None:
        if self._session is None:
            return
        try:
            await self._process.dispatcher.end_session(self._session, "the client ended its input")
        except StreamsError as error:
            log.info("The session could not be ended: %s", error)  # An operator ended it, or Redis is down.

    def _ended(self, session_id: str) -> None:
        """Stop serving if the session that ended is this client's. Another process may have ended it."""
        if self._session is not None and session_id == self._session.id:
            self._pipes.end()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except OSError:
            self._pipes.end()  # The client no longer reads.
        except StreamsError as error:
            log.info("A stream of a stdio session ended: %s", error)

    async def _take(self, frame: bytes | McpError) -> None:
        """Process one frame. Requests are served concurrently with later frames; other messages are not."""
        if isinstance(frame, McpError):
            await self._write(self._error(frame))
            return
        try:
            message = jsonrpc.parse(frame, self._limits)
            await self._message(message, frame)
        except McpError as error:
            await self._write(self._error(error))
        except StreamsError:
            await self._write(self._error(Unavailable()))

    async def _message(
        self, message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid], frame: bytes
    ) -> None:
        if isinstance(message, jsonrpc.Request) and self._exchanges.takes(message):
            await self._exchanges.begin(message, frame)
        elif isinstance(message, jsonrpc.Request) and message.method == "initialize":
            await self._initialize(message, frame)
        elif isinstance(message, jsonrpc.Request | list):
            self._spawn(self._serve(message, frame))
            await asyncio.sleep(0)  # A cancel in the next frame must find the call (STDIO-11).
        elif isinstance(message, jsonrpc.Notification):
            await self._notification(message, frame)
        elif self._session is not None:
            await self._process.dispatcher.response(await self._current(), message, frame)
        else:
            log.info("A response without a matching question was ignored")  # STDIO-06

    async def _initialize(self, request: jsonrpc.Request, frame: bytes) -> None:
        if self._session is not None:
            raise InvalidRequest(INITIALIZED, request_id=request.id)
        check_scopes(self._principal, request)
        answered = await self._process.dispatcher.initialize(
            self._principal, self._catalogue(), request, frame, "stdio", assumed=V2024_11_05
        )
        if answered.session_id is not None:
            self._session = await self._process.sessions.load(answered.session_id, self._principal.key)
            self._spawn(self._listen(self._session))
        await self._write(answered.body)

    async def _notification(self, message: jsonrpc.Notification, frame: bytes) -> None:
        if message.method == dialects.EXIT and dialects.EXIT in self._dialects:  # DLG-000-02
            self._pipes.end()
            return
        cancelled = message.params.get("requestId")
        if message.method == "notifications/cancelled" and self._exchanges.cancel(cancelled):
            self._log_notification(message, frame)
        elif self._exchanges.takes(message):
            self._log_notification(
                message, frame
            )  # As over HTTP, other notifications have no effect in this revision.
        elif self._session is not None:
            if message.method == "notifications/cancelled" and type(cancelled) in (str, int):
                # CAN-02: the request gets no answer. Unlike over HTTP, no stream needs an answer to end.
                self._silenced |= self._running & {cancelled}
            await self._process.dispatcher.notification(await self._current(), message, frame)

    def _log_notification(self, message: jsonrpc.Notification, frame: bytes) -> None:
        key = self._principal.key
        self._process.log.single(None, key, "in", "notification", frame, message.method)

    async def _current(self) -> LiveSession:
        """Return the session and extend its lifetime. Raise SessionNotFound if it has ended."""
        if self._session is None:
            raise SessionNotFound
        sessions = self._process.sessions
        key = self._principal.key
        return sessions.cached(self._session.id, key) or await sessions.load(self._session.id, key)

    def _catalogue(self) -> CatalogueView:
        """Return the client's view of the current catalogue, for one request or check."""
        return self._process.views.of(self._principal.permissions, self._path)

    async def _serve(
        self, message: jsonrpc.Request | list[jsonrpc.Message | jsonrpc.Invalid], frame: bytes
    ) -> None:
        request_id = message.id if isinstance(message, jsonrpc.Request) else None
        self._running.add(request_id)
        try:
            outcome = await self._outcome(message, frame)
            if isinstance(outcome, StreamReference):
                await self._pass_on(outcome, request_id)
            elif outcome.body:
                await self._answer(outcome.body, request_id)
        except McpError as error:
            error.request_id = request_id
            await self._write(self._error(error))
        finally:
            self._running.discard(request_id)
            self._silenced.discard(request_id)

    async def _outcome(
        self, message: jsonrpc.Request | list[jsonrpc.Message | jsonrpc.Invalid], frame: bytes
    ) -> Answered | StreamReference:
        if self._session is None:
            if isinstance(message, jsonrpc.Request) and message.method == "ping":
                return Answered(jsonrpc.encode_result(message.id, {}))
            raise InvalidRequest(NOT_INITIALIZED)
        catalogue, session = self._catalogue(), await self._current()
        if catalogue.server.removed:
            raise catalogue.server.absence()
        check_scopes(self._principal, message)
        asked = CallerContext(self._process, session, self._principal, catalogue)
        if isinstance(message, jsonrpc.Request):
            return await self._process.dispatcher.request(asked, message, frame)
        if session.version > V2025_03_26:
            raise InvalidRequest(NO_BATCH)
        return await self._process.dispatcher.batch(asked, message)

    async def _pass_on(self, reference: StreamReference, request_id: str | int | None) -> None:
        """Write a stream until it is complete, then delete it, because it cannot be resumed."""
        session = await self._current()
        streams = self._process.streams
        reader = streams.reader(session.id, reference.stream, reference.epoch, 0)
        try:
            while not reader.finished:
                for event in await reader.next(POLL_SECONDS):
                    if event.data and event.kind != CLOSE:
                        await self._answer(event.data, request_id)
            self._process.background.delivered(reference.stream)
            await streams.log.drop(session.id, reference.stream)
        finally:
            reader.close()

    async def _listen(self, session: LiveSession) -> None:
        """Write the server's own messages until the session ends, and extend the session's lifetime."""
        streams = self._process.streams
        epoch, _ = await streams.log.open(session.id, STANDALONE)
        reader = streams.reader(session.id, STANDALONE, epoch, 0)
        self._process.catalogue_refresher.on_change.append(reader.poke)
        self._process.sessions.on_change.append(lambda _: reader.poke())
        try:
            while not reader.finished:
                catalogue = self._catalogue()
                if catalogue.server.removed:
                    self._pipes.end()
                    return
                found, revision = await list_changed.due(streams, session, catalogue)
                for message, _ in found:
                    await self._write(message)
                list_changed.log_notices(self._process.log, session, found)
                if revision != session.announced:
                    await self._process.sessions.announced(session, revision)
                for event in await reader.next(POLL_SECONDS):
                    if event.data and event.kind != CLOSE:
                        await self._write(event.data)
                session = await self._current()
                self._process.log.fact("session.seen", sessions=[session.id])
        except McpError:
            self._pipes.end()
        finally:
            reader.close()

    async def _answer(self, message: bytes, request_id: str | int | None) -> None:
        if request_id not in self._silenced or CANCELLED not in message[:300]:
            await self._write(message)

    async def _write(self, message: bytes) -> None:
        await self._pipes.write(self._framing.encode(message))

    def _error(self, error: McpError) -> bytes:
        """Encode an error. Before 2025-11-25 an error without a request id has the id null (RPC-07)."""
        if error.request_id is None and self._session is not None and self._session.version < V2025_11_25:
            return b'{"jsonrpc":"2.0","id":null,"error":%b}' % jsonrpc.encode(error.to_wire())
        return jsonrpc.encode_error(error)
