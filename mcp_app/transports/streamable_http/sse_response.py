"""The common part of event streams: bounded writes, keep-alives, credential checks, disconnection.

Subclasses decide the content and the end of a stream.
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
# The key that marks a scope whose response has started.
STREAMING = "mcp.streaming"
# An ASGI extension: a function that takes ``send`` and returns a function that writes a part of a response
# body synchronously. The latter returns False, and writes nothing, if the write would have to wait.
WRITER = "mcp.writer"
# The interval at which an open stream is recorded as activity of its session.
SEEN_SECONDS = 240.0


class ClientStalled(Exception):
    """The client stopped reading. It may resume later."""


class Authenticated(NamedTuple):
    """The client of a connection, with the credential that is checked again during the connection."""

    principal: Principal
    authorization: bytes | None
    local: bool


class SseResponse:
    """The connection that one event stream is written to."""

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
        # The rest of a write that ``_write_at_once`` started. The stream's task finishes it.
        self._unfinished: Awaitable[None] | None = None
        self._written = self._checked = self._seen = time.monotonic()

    @contextmanager
    def _registered(self, connection: StreamReader, receive: Receive) -> Iterator[asyncio.Future[None]]:
        """Register the connection, and wake it if the client disconnects."""
        self._connections.add(connection)
        gone = asyncio.ensure_future(disconnected(receive))
        gone.add_done_callback(lambda _: connection.wake())
        try:
            yield gone
        finally:
            self._connections.remove(connection)
            gone.cancel()

    async def _begin(self, scope: MutableMapping[str, Any], send: Send, extra: Headers) -> None:
        """Send the headers. From now on an error can no longer be sent as a body."""
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
        """Write from a callback during a wait of the stream's task.

        Return False if the task must call ``_finish``.
        """
        if self._write_piece is not None and self._write_piece(data):
            self._written = time.monotonic()
            return True
        sending = self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._written = time.monotonic()
        self._unfinished = inline_steps.begin(sending, self._task)
        return self._unfinished is None

    async def _finish(self) -> None:
        """Finish a write that ``_write_at_once`` started. Raises ClientStalled."""
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is not None:
            await self._in_time(unfinished)

    async def _end(self) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _in_time(self, sending: Awaitable[None]) -> None:
        """Send within the time limit. Raises ClientStalled if the client does not read."""
        try:
            async with asyncio.timeout(self._settings.stall_seconds):
                await sending
        except TimeoutError:
            raise ClientStalled from None

    def _keep_alive_due(self) -> float:
        return self._written + self._settings.keep_alive_seconds

    def _check_due(self) -> float:
        """Return the time of the next authentication, at the latest when the credential expires."""
        due = self._checked + self._settings.stream_check_seconds
        if self._principal.expires_at is not None:
            left = self._principal.expires_at - time.time()
            due = min(due, time.monotonic() + left)
        return due

    def _is_check_due(self) -> bool:
        return self._check_due() <= time.monotonic()

    def _pause(self) -> float:
        """Return the seconds until the next keep-alive or the next check."""
        return min(self._keep_alive_due(), self._check_due()) - time.monotonic()

    def _is_expired(self) -> bool:
        return self._principal.expires_at is not None and self._principal.expires_at <= time.time()

    async def _authenticate(self) -> Principal:
        """Authenticate again (S5, AUTH-18). Raises the error that a new request would get."""
        self._checked = time.monotonic()
        return await self._process.authenticator.authenticate(
            self._opener.authorization, local=self._opener.local, path=self._opener.principal.path or ENDPOINT
        )

    def _record_activity(self, session_id: str) -> None:
        """Record activity of a listening client, so that its session does not look idle (SES-10)."""
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
    """Wait until the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass
