"""Responses that are event streams: bounded writes, keep-alives, credential, disconnection.

What is written, and when the stream ends, is for the classes that derive from it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from mcp_app.auth.principal import Principal
from mcp_app.process import Process
from mcp_app.protocol.messages.server import ENDPOINT
from mcp_app.transports.open_streams import Connections, StreamReader
from mcp_app.transports.streamable_http import inline_steps
from mcp_app.transports.streamable_http.answers import NO_CACHE, Headers, Send
from mcp_app.transports.streamable_http.request_body import Receive

START_HEADERS = [(b"content-type", b"text/event-stream"), NO_CACHE, (b"x-accel-buffering", b"no")]
# Marks a scope whose answer has begun.
STREAMING = "mcp.streaming"
# An extension of a scope (ASGI): given ``send``, a server says how a piece of a body that has begun is
# written at once. That returns False, and has written nothing, if the piece would have to wait.
WRITER = "mcp.writer"
# How often an open stream counts as a sign of life in the database.
SEEN_SECONDS = 240.0


class ClientStalled(Exception):
    """The client stopped reading; it may resume when it reads again."""


class Authenticated(NamedTuple):
    """The client of a connection, and the credential that is checked again while it is open."""

    principal: Principal
    authorization: bytes | None
    local: bool


class SseResponse:
    """The connection under one event stream."""

    __slots__ = (
        "_checked",
        "_connections",
        "_opener",
        "_principal",
        "_process",
        "_seen",
        "_send",
        "_settings",
        "_task",
        "_unfinished",
        "_write_piece",
        "_written",
    )

    def __init__(self, process: Process, connections: Connections, opener: Authenticated) -> None:
        self._process = process
        self._settings = process.settings
        self._connections = connections
        self._opener = opener
        self._principal = opener.principal
        # A write that was begun at once, and what is left of it for the stream's task.
        self._unfinished: Awaitable[None] | None = None
        self._written = self._checked = self._seen = time.monotonic()

    @contextmanager
    def _registered(self, connection: StreamReader, receive: Receive) -> Iterator[asyncio.Future[None]]:
        """Register the connection and watch for its client to go away, which wakes it."""
        self._connections.add(connection)
        gone = asyncio.ensure_future(disconnected(receive))
        gone.add_done_callback(lambda _: connection.wake())
        try:
            yield gone
        finally:
            self._connections.remove(connection)
            gone.cancel()

    async def _begin(self, scope: MutableMapping[str, Any], send: Send, extra: Headers) -> None:
        """Send the headers; an error can no longer become a body."""
        self._send = send
        self._task = current_task()
        scope[STREAMING] = True
        headers = [*START_HEADERS, *extra]
        await self._in_time(send({"type": "http.response.start", "status": 200, "headers": headers}))
        writer = scope.get("extensions", {}).get(WRITER)
        self._write_piece: Callable[[bytes], bool] | None = writer(send) if writer else None

    async def _write(self, data: bytes) -> None:
        await self._in_time(self._send_body(data))

    async def _send_body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._written = time.monotonic()

    def _write_at_once(self, data: bytes) -> bool:
        """Write from a callback, while the stream's task waits for news; False if it has to ``_finish``."""
        if self._write_piece is not None and self._write_piece(data):
            self._written = time.monotonic()
            return True
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._written = time.monotonic()
        self._unfinished = inline_steps.begin(sending, self._task)
        return self._unfinished is None

    async def _finish(self) -> None:
        """Go on with what was begun at once. Raises ClientStalled."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            await self._in_time(unfinished)

    async def _end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _in_time(self, sending: Awaitable[None]) -> None:
        """Send within the time limit; raise ClientStalled if the client does not read."""
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await sending
        except TimeoutError:
            raise ClientStalled from None

    def _keep_alive_due(self) -> float:
        return self._written + self._settings.keep_alive_seconds

    def _check_due(self) -> float:
        """Return when to authenticate next: regularly, and when the credential expires."""
        due = self._checked + self._settings.stream_check_seconds
        if self._principal.expires_at is not None:
            left = self._principal.expires_at - time.time()
            due = min(due, time.monotonic() + left)
        return due

    def _is_check_due(self) -> bool:
        return self._check_due() <= time.monotonic()

    def _pause(self) -> float:
        """Seconds until the next keep-alive, the next check or the end of the credential."""
        return min(self._keep_alive_due(), self._check_due()) - time.monotonic()

    def _is_expired(self) -> bool:
        return self._principal.expires_at is not None and self._principal.expires_at <= time.time()

    async def _authenticate(self) -> Principal:
        """Authenticate again (S5, AUTH-18); raises what a new request would be refused with."""
        self._checked = time.monotonic()
        return await self._process.authenticator.authenticate(
            self._opener.authorization, local=self._opener.local, path=self._opener.principal.path or ENDPOINT
        )

    def _note_seen(self, session_id: str) -> None:
        """Record activity of a listening client: its session must not look idle (SES-10)."""
        now = time.monotonic()
        if now - self._seen >= SEEN_SECONDS:
            self._seen = now
            self._process.log.fact("session.seen", sessions=[session_id])


def current_task() -> asyncio.Task[Any]:
    """Return the running task."""
    task = asyncio.current_task()
    assert task is not None
    return task


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
