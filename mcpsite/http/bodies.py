"""Limits for the size of bodies and the time they take, on any ASGI server (S28).

They apply before Django reads a body. Django would store the whole body, in memory or on disk, before it
looks at the request.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFault
from django.http import parse_cookie

from mcp_app import conf
from mcp_app.auth import tokens
from mcp_app.auth.authentication import readable
from mcp_app.database.queries import aquery
from mcp_app.oauth.second_factor.gate import user_of_session
from mcp_app.protocol.errors import Refused, Unavailable
from mcp_app.transports.streamable_http.request_body import declared_length

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# A catalogue file or an OpenAPI document may have 32 MiB, plus the form around it.
FILE_BYTES = 33 * 1024 * 1024
FILES = ("/admin/", "/api/catalogue/import/", "/api/documents/")
GONE: Message = {"type": "http.disconnect"}


async def bounded(application: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request whose body is within its limits. Respond 413 or 408 to any other request.

    Anonymous callers may send ``MAX_UNKNOWN_BODY_BYTES``. Authenticated callers may send
    ``MAX_BODY_BYTES``, and to paths below ``FILES`` they may send ``FILE_BYTES``. The time limit is
    ``BODY_SECONDS``, multiplied by how many times ``MAX_BODY_BYTES`` the allowed size is.
    """
    body = _Body(scope, receive)
    answered = False

    async def answer(message: Message) -> None:
        nonlocal answered
        answered = True
        await send(message)

    try:
        await body.check_declared()
        await application(body.scope, body.receive, answer)
    except Refused as refusal:
        body.refusal = refusal
    if body.refusal is not None and not answered:
        await _refuse(scope, send, body.refusal)


class _Body:
    """The body of one request. It is counted while it is read."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        # A copy, because the length of the body is added to it.
        self.scope = {**scope, "headers": list(scope["headers"])}
        self.refusal: Refused | None = None
        self._receive = receive
        self._size = 0
        self._whole = False
        self._most = conf.get().max_body_bytes
        self._seconds = conf.get().body_seconds
        self._limit = min(conf.get().max_unknown_body_bytes, self._most)
        self._known = False
        self._began = asyncio.get_running_loop().time()

    async def check_declared(self) -> None:
        """Raise Refused if the declared length is too large. This happens before anything is read."""
        for name, value in self.scope["headers"]:
            if name == b"content-length":
                await self._make_room(declared_length(value))

    async def receive(self) -> Message:
        """Return the next message. For a refused body, return a disconnect."""
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._began + self._seconds):
                message = await self._receive()
            if message["type"] == "http.request":
                self._size += len(message.get("body", b""))
                await self._make_room(self._size)
        except TimeoutError:
            self.refusal = Refused(f"The body did not arrive within {self._seconds:g} s.", http_status=408)
        except Refused as refusal:
            self.refusal = refusal
        else:
            if message["type"] == "http.request" and not message.get("more_body", False):
                self._add_length()
            return message
        return GONE

    async def _make_room(self, size: int) -> None:
        """Raise Refused if the caller must not send as many as ``size`` bytes."""
        if size > self._limit and not self._known:
            allowed = FILE_BYTES if self.scope["path"].startswith(FILES) else self._most
            if size <= allowed and not await _is_signed_in(self.scope["headers"]):
                raise _too_large(f"{self._limit} bytes, unless you are signed in or send a valid API key")
            self._known = True
            self._limit = allowed
            self._seconds *= max(1, math.ceil(allowed / max(self._most, 1)))
        if size > self._limit:
            raise _too_large(f"{self._limit} bytes")

    def _add_length(self) -> None:
        """Add the length of a chunked body (RFC 9112 section 7.1.3). Without it Django reads nothing."""
        self._whole = True
        headers = self.scope["headers"]
        if self._size and all(name != b"content-length" for name, _ in headers):
            headers[:] = [field for field in headers if field[0] not in (b"transfer-encoding", b"trailer")]
            headers.append((b"content-length", b"%d" % self._size))


async def _is_signed_in(headers: list[tuple[bytes, bytes]]) -> bool:
    """Return True if the caller is authenticated. Raise Refused (503) if the database is unavailable."""
    found = {
        name: value.decode("latin-1") for name, value in headers if name in (b"authorization", b"cookie")
    }
    authorization = found.get(b"authorization", "")
    session = parse_cookie(found.get(b"cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    try:
        if authorization:
            return await tokens.afind(readable(authorization)) is not None
        return bool(session) and await aquery(_is_session, session)
    except DatabaseFault:
        raise Refused("The database is away. Try again in a moment.", http_status=503) from None
    except Unavailable as unavailable:
        raise Refused(unavailable.message, http_status=503) from None


def _is_session(key: str) -> bool:
    return user_of_session(key) is not None


def _too_large(limit: str) -> Refused:
    return Refused(f"The body is larger than {limit}.", http_status=413)


async def _refuse(scope: Scope, send: Send, refusal: Refused) -> None:
    """Send the refusal in the format for the requested path, and close the connection."""
    status, detail = refusal.http_status, str(refusal)
    if scope["path"].startswith("/api/"):
        kind = b"application/problem+json"
        title = HTTPStatus(status).phrase
        problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        content = json.dumps(problem, indent=2).encode() + b"\n"
    elif scope["path"].startswith("/oauth/"):
        kind = b"application/json"
        error = "temporarily_unavailable" if status == 503 else "invalid_request"
        content = json.dumps({"error": error, "error_description": detail}).encode()
    else:
        kind, content = b"text/plain; charset=utf-8", detail.encode() + b"\n"
    headers = [
        (b"content-type", kind),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
    ]
    if scope.get("http_version", "1.1").startswith("1"):
        headers.append((b"connection", b"close"))
    if status == 503:
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
