"""The endpoint with a short cut, which answers a complete request by a plain call (decision 0039)."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic

from mcp_app.auth.challenges import missing_scope
from mcp_app.auth.principal import Principal
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.calls.reply import ACCEPTED, Answered, Reply
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.http.headers import accepts_both, is_identity, is_json
from mcp_app.protocol.messages import idempotency, jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.protocol.messages.trace_context import from_headers
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.session import LiveSession
from mcp_app.transports.streamable_http.answers import Headers, Send
from mcp_app.transports.streamable_http.endpoint import Endpoint, Scope, Verbs, opener_of
from mcp_app.transports.streamable_http.legacy import Fields, check_version
from mcp_app.transports.streamable_http.request_body import Receive
from mcp_app.transports.streamable_http.shortcut.started import STARTED, StartedCall, StartedSession

# The only notification that the short cut handles. Other notifications wait for more than one answer.
INITIALIZED = "notifications/initialized"
QUOTED = b'"notifications/initialized"'


class QuickEndpoint(Endpoint):
    """An endpoint that an HTTP server may call before it creates a task and ASGI messages for a request.

    ``quick`` and ``quick_delete`` apply the checks of ``Endpoint`` by the same functions. If a check fails,
    they return None without effect, and ``Endpoint`` serves or refuses the request. The caller sends the
    ``answer`` of a started request. If there is no such answer, it passes the request to ``__call__`` with
    STARTED in the scope.
    """

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._dispatcher = process.dispatcher
        self._grace = process.settings.grace_seconds
        self._resuming: Verbs = {"POST": self._resume, "DELETE": self._resume}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or continue a request that was started."""
        verbs = self._resuming if STARTED in scope else self._verbs
        await self.serve(verbs, self._allow, scope, receive, send)

    def quick(
        self, headers: Iterable[tuple[bytes, bytes]], body: bytes, address: str, path: str = ENDPOINT
    ) -> bytes | StartedCall | StartedSession | None:
        """Return the JSON body of a 200 answer to a POST, a started request, or None."""
        if len(body) > self._limits.body_bytes or (b'"id"' not in body and QUOTED not in body):
            return None
        try:
            fields = self._collect(headers)
            if (
                b"origin" in fields
                or not is_json(fields.get(b"content-type"))
                or not is_identity(fields.get(b"content-encoding"))
                or not accepts_both(fields.get(b"accept"))
            ):
                return None
            self._policy.check(fields.get(b"host"), None)
            principal = self.known(fields, address, path)
            if principal is None:
                return None
            message = jsonrpc.parse(body, self._limits)
            if type(message) is jsonrpc.Notification:
                return self._confirm(fields, message, body, principal, path)
            if type(message) is not jsonrpc.Request or idempotency.HEADER in fields:
                return None
            if principal.scopes is not None and missing_scope(principal, message):
                return None
            return self._begin(fields, message, body, principal, address, path)
        except McpError:
            return None

    def quick_delete(
        self, headers: Iterable[tuple[bytes, bytes]], address: str, path: str = ENDPOINT
    ) -> StartedSession | None:
        """Start to end a session that this process has in memory. Return None for other requests."""
        try:
            fields = self._collect(headers)
            if b"origin" in fields:
                return None
            self._policy.check(fields.get(b"host"), None)
            principal = self.known(fields, address, path)
            if principal is None:
                return None
            self._modern.refuse_verb(fields)
            check_version(fields)
            session = self._legacy.known(fields, principal, path)
            return None if session is None else StartedSession(principal, self._legacy.end(session))
        except McpError:
            return None

    def _begin(
        self,
        fields: Fields,
        message: jsonrpc.Request,
        body: bytes,
        principal: Principal,
        address: str,
        path: str,
    ) -> bytes | StartedCall | StartedSession | None:
        """Return the answer to a request, a started request, or None.

        Raises the errors that ``post`` would answer with.
        """
        catalogue = self._process.views.of(principal.permissions, path)
        session: LiveSession | Exchange | None
        if self._modern.takes(fields, message):
            session = self._modern.admit(fields, message, principal, catalogue)
        else:
            self._legacy.check(fields, message, catalogue)
            if message.method == "initialize":
                opening = self._dispatcher.initialize(principal, catalogue, message, body, address)
                return StartedSession(principal, opening)
            session = self._legacy.known(fields, principal, path)
        if session is None:
            return None
        asked = CallerContext(self._process, session, principal, catalogue)
        started: bytes | Reply | ExchangeReply | None = self._dispatcher.quick(asked, message, body)
        if started is None:
            started = self._dispatcher.begin(asked, message, body, from_headers(fields))
        if started is not None and type(session) is Exchange:
            self._process.clients.report(session, principal.user_id, address)
        if started is None or isinstance(started, bytes):
            return started
        return StartedCall(principal, session, message, started, monotonic() + self._grace)

    def _confirm(
        self, fields: Fields, message: jsonrpc.Notification, body: bytes, principal: Principal, path: str
    ) -> StartedSession | None:
        """Start to confirm a session that this process has in memory. Return None for other notifications."""
        if message.method != INITIALIZED or self._modern.takes(fields, message):
            return None
        self._legacy.check(fields, message, self._process.views.of(principal.permissions, path))
        session = self._legacy.known(fields, principal, path)
        return None if session is None else StartedSession(principal, self._confirmed(session, message, body))

    async def _confirmed(self, session: LiveSession, message: jsonrpc.Notification, body: bytes) -> Answered:
        await self._dispatcher.notification(session, message, body)
        return ACCEPTED

    async def _resume(
        self, scope: Scope, fields: Fields, receive: Receive, send: Send, extra: Headers
    ) -> None:
        """Continue a started request. Its sender and its message have already been checked."""
        started: StartedCall | StartedSession = scope[STARTED]
        principal = started.principal
        if isinstance(started, StartedSession):
            await self._answer(await started.outcome(), None, principal, scope, fields, receive, send, extra)
            return
        session, request, reply = started.session, started.request, started.reply
        if isinstance(reply, Reply):
            assert isinstance(session, LiveSession)
            outcome = await self._dispatcher.outcome(session, request, reply, started.grace)
            await self._answer(outcome, session, principal, scope, fields, receive, send, extra)
        else:
            assert isinstance(session, Exchange)
            await reply.settled(started.grace)
            opener = opener_of(principal, fields, scope)
            await self._modern.answer(scope, receive, send, session, request, reply, opener, extra)
