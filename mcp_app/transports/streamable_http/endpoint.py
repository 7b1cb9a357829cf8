"""The ASGI application of every MCP endpoint: checks of a request, then its HTTP method and era."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from mcp_app.auth.challenges import check_scopes, unauthorized
from mcp_app.auth.own_addresses import metadata_url
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.dispatcher import NO_REDIS
from mcp_app.execution.calls.reply import Answered, StreamReference
from mcp_app.execution.calls.results import unexpected
from mcp_app.limits.current import caller_address
from mcp_app.limits.current import holder as rules
from mcp_app.process import Process
from mcp_app.protocol import dialects
from mcp_app.protocol.errors import (
    McpError,
    MethodNotAllowed,
    NotAcceptable,
    SessionNotFound,
    Unavailable,
    UnsupportedMediaType,
)
from mcp_app.protocol.http.headers import (
    accepts_both,
    accepts_json,
    accepts_sse,
    collect,
    is_identity,
    is_json,
)
from mcp_app.protocol.http.transport_security import HostPolicy, is_forwarded, names_loopback
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.server import ENDPOINT, Server, further_path
from mcp_app.protocol.versions import LEGACY_NAMES
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.base import SessionEnded, StreamFinished, StreamsError
from mcp_app.transports.message_limits import message_limits
from mcp_app.transports.open_streams import Connections
from mcp_app.transports.streamable_http.answers import Headers, Send, send_body, send_error
from mcp_app.transports.streamable_http.event_stream import EventStream
from mcp_app.transports.streamable_http.legacy import Fields, Legacy
from mcp_app.transports.streamable_http.modern import Modern, address_of
from mcp_app.transports.streamable_http.request_body import BodyReader, Disconnected, Receive
from mcp_app.transports.streamable_http.single_form import AsJson, AsStream
from mcp_app.transports.streamable_http.sse_response import STREAMING, Authenticated

ALLOW = "GET, POST, DELETE, OPTIONS"
ALLOW_MODERN = "POST, OPTIONS"
CORS_HEADERS = (
    b"authorization, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id, "
    b"mcp-method, mcp-name"
)
# Browsers may also send headers that repeat arguments of tools. Their names depend on the tools.
PARAM_HEADER = re.compile(rb"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,128}")
MAX_PARAM_HEADERS = 50
LOOPBACK_ADDRESSES = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
Scope = MutableMapping[str, Any]
Verbs = dict[str, Callable[..., Awaitable[None]]]

log = logging.getLogger("mcp.http")


class Endpoint:
    """An ASGI callable that serves Streamable HTTP in one process."""

    def __init__(self, process: Process) -> None:
        settings = process.settings
        self._process = process
        self._legacy = Legacy(process)
        self._policy = HostPolicy(
            settings.allowed_hosts, settings.allowed_origins, loopback=settings.loopback
        )
        self.connections = Connections(settings.max_streams_per_principal)
        self._modern = Modern(process, self.connections)
        self._limits = message_limits(settings)
        self._takes_single = dialects.SINGLE_ACCEPT in settings.dialects
        lenient = dialects.MISSING_ACCEPT in settings.dialects
        self._collect = collect if lenient else _collect_with_accept
        self._bodies = BodyReader(settings.max_body_bytes, settings.body_seconds)
        self._verbs: Verbs = {"POST": self._post}
        self._allow = ALLOW_MODERN
        if not LEGACY_NAMES.isdisjoint(settings.versions):
            # T-MOD-10: the modern era has no GET and no DELETE.
            self._verbs |= {"GET": self._get, "DELETE": self._delete}
            self._allow = ALLOW
        process.attach_streams(self.connections)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        await self.serve(self._verbs, self._allow, scope, receive, send)

    async def serve(self, verbs: Verbs, allow: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it to the function for its HTTP method. Every error becomes one answer."""
        extra: Headers = ()
        try:
            fields = self._collect(scope["headers"])
            if rules.by_address:
                caller_address.set(address_of(scope))
            self._policy.check(fields.get(b"host"), fields.get(b"origin"))
            if b"origin" in fields:
                extra = _cors(fields[b"origin"])
            verb = verbs.get(scope["method"])
            if verb is None:
                await self._other(scope["method"], fields, allow, send, extra)
            else:
                await verb(scope, fields, receive, send, extra)
        except (Disconnected, ConnectionError):
            return  # The client has disconnected: ASGI lets servers raise this from send().
        except McpError as error:
            await self._refuse(scope, send, error, extra)
        except (SessionEnded, StreamFinished):
            await self._refuse(scope, send, SessionNotFound(), extra)
        except StreamsError:
            await self._refuse(scope, send, Unavailable(NO_REDIS), extra)
        except Exception:  # noqa: BLE001 - at this boundary every error becomes an answer
            await self._refuse(scope, send, _fault(scope), extra)

    async def _refuse(self, scope: Scope, send: Send, error: McpError, extra: Headers) -> None:
        if STREAMING not in scope:
            await send_error(send, error, extra)

    def known(self, fields: Fields, address: str, path: str) -> Principal | None:
        """Return the principal if this process knows it without a query, else None.

        Only the Authorization header identifies a principal, not a cookie or a query (AUTH-06, AUTH-21).
        """
        authorization = fields.get(b"authorization")
        local = authorization is None and is_local(fields, address)
        return self._process.authenticator.known(authorization, local=local, path=path)

    async def principal(self, fields: Fields, scope: Scope) -> Principal:
        """Return the principal of a request. Raises Unauthorized, TooManyRequests or Unavailable."""
        authorization, address = fields.get(b"authorization"), address_of(scope)
        local = authorization is None and is_local(fields, address)
        return await self._process.authenticator.authenticate(
            authorization,
            local=local,
            address=address,
            metadata=_metadata(fields, scope),
            path=further_path(scope["path"]) or ENDPOINT,
        )

    def absence(self, principal: Principal, server: Server, fields: Fields, scope: Scope) -> McpError:
        """Return the error for a request to a removed server, or to one that refuses the principal.

        A client without a credential is asked for one.
        """
        if server.refusal and principal is LOOPBACK:
            return unauthorized(server.refusal, metadata=_metadata(fields, scope))
        return server.absence()

    def check_scopes(
        self,
        principal: Principal,
        message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid],
        fields: Fields,
        scope: Scope,
    ) -> None:
        """Raise Forbidden for a message that the credential's scopes do not allow."""
        check_scopes(principal, message, _metadata(fields, scope))

    async def message(
        self, fields: Fields, receive: Receive, *, answers: bool
    ) -> tuple[jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid], bytes]:
        """Return the message of a POST and its bytes. With ``answers`` the Accept header is checked.

        Raises UnsupportedMediaType, NotAcceptable, and the errors of reading and parsing.
        """
        if not is_json(fields.get(b"content-type")) or not is_identity(fields.get(b"content-encoding")):
            raise UnsupportedMediaType
        if answers and not accepts_both(fields.get(b"accept")) and not self._accepts_one(fields):
            raise NotAcceptable
        body = await self._bodies.read(receive, fields.get(b"content-length"))
        return jsonrpc.parse(body, self._limits), body

    def _accepts_one(self, fields: Fields) -> bool:
        accept = fields.get(b"accept")
        one = accepts_json(accept) or accepts_sse(accept)
        return one and self._takes_single and not self._modern.is_named(fields)

    async def _post(self, scope: Scope, fields: Fields, receive: Receive, send: Send, extra: Headers) -> None:
        address, path = address_of(scope), scope["path"]
        principal = self.known(fields, address, path) or await self.principal(fields, scope)
        message, body = await self.message(fields, receive, answers=True)
        if principal.scopes is not None:
            self.check_scopes(principal, message, fields, scope)
        catalogue = self._process.views.of(principal.permissions, path)
        if catalogue.server.removed:
            error = self.absence(principal, catalogue.server, fields, scope)
            error.request_id = message.id if isinstance(message, jsonrpc.Request) else None
            raise error
        accept = fields.get(b"accept")
        if self._modern.takes(fields, message):
            if not accepts_both(accept):
                raise NotAcceptable
            opener = opener_of(principal, fields, scope)
            await self._modern.post(scope, fields, receive, send, message, body, opener, catalogue, extra)
            return
        if not accepts_sse(accept):
            send = AsJson(send, batch=isinstance(message, list))
        elif not accepts_json(accept):
            send = AsStream(send)
        outcome, session = await self._legacy.post(fields, message, body, principal, catalogue, address)
        await self._answer(outcome, session, principal, scope, fields, receive, send, extra)

    async def _answer(
        self,
        outcome: Answered | StreamReference,
        session: LiveSession | None,
        principal: Principal,
        scope: Scope,
        fields: Fields,
        receive: Receive,
        send: Send,
        extra: Headers,
    ) -> None:
        if isinstance(outcome, Answered):
            headers = (*outcome.headers, *extra)
            if outcome.session_id is not None:
                headers = (*headers, (b"mcp-session-id", outcome.session_id.encode()))
            await send_body(send, outcome.status, outcome.body, headers)
        elif session is not None:
            await self._stream(session, principal, fields, scope).run(
                scope, receive, send, outcome, extra=extra
            )

    async def _get(self, scope: Scope, fields: Fields, receive: Receive, send: Send, extra: Headers) -> None:
        self._modern.refuse_verb(fields)
        principal = await self.principal(fields, scope)
        if not accepts_sse(fields.get(b"accept")):
            raise NotAcceptable("The Accept header must allow 'text/event-stream'.")
        server = self._process.views.of(principal.permissions, scope["path"]).server
        if server.removed:
            raise self.absence(principal, server, fields, scope)
        self.connections.admit(principal.key)
        session, reference, token = await self._legacy.get(fields, principal, scope["path"])
        try:
            await self._stream(session, principal, fields, scope).run(
                scope, receive, send, reference, token, extra
            )
        finally:
            if token:
                await self._process.standalone.leave(session, token)

    async def _delete(self, scope: Scope, fields: Fields, _: Receive, send: Send, extra: Headers) -> None:
        self._modern.refuse_verb(fields)
        ended = await self._legacy.delete(fields, await self.principal(fields, scope), scope["path"])
        await send_body(send, ended.status, ended.body, extra)

    async def _other(self, method: str, fields: Fields, allow: str, send: Send, extra: Headers) -> None:
        if method != "OPTIONS":
            raise MethodNotAllowed(allow=allow)
        # SEC-05: requests of other origins have already been refused, so the preflight grants access.
        preflight = (
            (b"access-control-allow-methods", allow.removesuffix(", OPTIONS").encode()),
            (b"access-control-max-age", b"600"),
            (b"access-control-allow-headers", _allowed_headers(fields)),
            (b"allow", allow.encode()),
        )
        await send_body(send, 204, b"", (*extra, *(preflight if extra else preflight[3:])))

    def _stream(
        self, session: LiveSession, principal: Principal, fields: Fields, scope: Scope
    ) -> EventStream:
        return EventStream(self._process, self.connections, opener_of(principal, fields, scope), session)


def opener_of(principal: Principal, fields: Fields, scope: Scope) -> Authenticated:
    """Return the client of a connection, with the credential to check again later."""
    local = is_local(fields, address_of(scope))
    return Authenticated(principal, fields.get(b"authorization"), local)


def is_local(fields: Fields, address: str) -> bool:
    """Return True if a request comes from this machine and its Host header names this machine.

    A proxy on this machine also connects from a loopback address. Its requests are not local: they have the
    public host name, or the headers that proxies add.
    """
    if address not in LOOPBACK_ADDRESSES or is_forwarded(tuple(fields)):
        return False
    return names_loopback(fields.get(b"host", b""))


def _metadata(fields: Fields, scope: Scope) -> str:
    return metadata_url(fields.get(b"host", b"").decode("latin-1"), scope["path"])


def _fault(scope: Scope) -> McpError:
    error = unexpected(scope["method"], scope["path"])
    error.http_status = 500
    return error


def _collect_with_accept(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    fields = collect(headers)
    fields.setdefault(b"accept", b"")  # An empty header accepts nothing. A missing header accepts anything.
    return fields


def _allowed_headers(fields: Fields) -> bytes:
    """Return the headers that a page of an allowed origin may send, including headers for arguments."""
    asked = fields.get(b"access-control-request-headers", b"").lower().split(b",")
    mirrored = [name for each in asked if PARAM_HEADER.fullmatch(name := each.strip(b" \t"))]
    return b", ".join((CORS_HEADERS, *mirrored[:MAX_PARAM_HEADERS]))


def _cors(origin: bytes) -> Headers:
    return (
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    )
