"""Fast responses to simple requests, without a task or ASGI messages and in a single write.

Most requests to an MCP server are lists, pings and quick tools. For each, uvicorn creates a task and
several messages. Here, a request that has arrived completely is first passed to the service in a plain
function call. If the service declines it, the request takes the ordinary path. If a call has been started,
it is held until it is answered. If that takes too long, or the connection changes, the call continues on
the ordinary path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mcp_app.protocol.messages.server import ENDPOINT, further_path
from mcpsite.http.connection import BoundedConnection, Refused

if TYPE_CHECKING:  # Only for type checkers: this module is imported before Django is set up.
    from mcp_app.execution.calls.reply import Answered
    from mcp_app.transports.streamable_http.shortcut.started import StartedCall, StartedSession

PATH = ENDPOINT.encode()
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-cache, no-transform\r\n%b"
    b"content-length: %d\r\n\r\n%b"
)
HEAD_OF_SESSION = b"%bcache-control: no-cache, no-transform\r\n%bcontent-length: %d\r\n\r\n%b"
KIND = b"content-type: application/json\r\n"
METHODS = {b"POST": "POST", b"DELETE": "DELETE"}
# Takes headers, body, client address and path. Returns the JSON body of a 200 response, a started call or
# session request, or None to decline the request.
Quick = Callable[
    [Iterable[tuple[bytes, bytes]], bytes, str, str], "bytes | StartedCall | StartedSession | None"
]
# The same for DELETE, without a body.
QuickDelete = Callable[[Iterable[tuple[bytes, bytes]], str, str], "StartedSession | None"]


class Parsed:
    """A stand-in for the parser of a held request. The real parser may already parse the next request."""

    def __init__(self, method: str) -> None:
        self.get_method = method.encode

    get_http_version = staticmethod(lambda: "1.1")
    should_keep_alive = staticmethod(lambda: True)
    should_upgrade = staticmethod(lambda: False)


class QuickAnswers(BoundedConnection):
    """An HTTP connection with a fast path. Each process sets its functions once the service runs."""

    __slots__ = ("_context", "_grace", "_path", "held", "started")

    quick: Quick | None = None
    quick_delete: QuickDelete | None = None
    _context: Context
    _path: str

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.held: list[bytes] | None = None
        self.started: StartedCall | StartedSession | None = None
        self._grace: asyncio.TimerHandle | None = None

    def on_message_begin(self) -> None:
        """Pass a held call to the ordinary path if a pipelined request arrives."""
        if self.started is not None:
            self._go_on()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Hold a POST or DELETE to the endpoint of a server until it is complete."""
        method = METHODS.get(self.parser.get_method()) if self.url.startswith(PATH) else None
        path = _endpoint(self.url) if method is not None else ""
        if method is not None and path and type(self).quick is not None and self._may_be_quick():
            self.held, self._path = [], path
            self.scope["method"] = method  # This marks the headers as complete.
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the body of a held request."""
        if self.held is None:
            super().on_body(body)
        else:
            self.held.append(body)

    def on_message_complete(self) -> None:
        """Answer a held request, or pass it to the ordinary path."""
        if self.held is not None:
            quick = type(self).quick if self.scope["method"] == "POST" else self._delete
            address = self.client[0] if self.client else ""
            body = b"".join(self.held)
            answer = quick(self.scope["headers"], body, address, self._path) if quick else None
            if answer is not None:
                self.held = None
                if isinstance(answer, bytes):
                    self._send(answer)
                else:
                    self._hold(answer)
                return
            self._let_go()
        super().on_message_complete()

    def _delete(
        self, headers: Iterable[tuple[bytes, bytes]], body: bytes, address: str, path: str
    ) -> StartedSession | None:
        quick_delete = type(self).quick_delete
        return quick_delete(headers, address, path) if quick_delete and not body else None

    def data_received(self, data: bytes) -> None:
        """Parse data. Pass an incomplete request to the ordinary path, because its body has a time limit."""
        if self.started is not None:
            self._go_on()
        super().data_received(data)
        if self.held is not None:
            with suppress(Refused):
                self._let_go()

    def shutdown(self) -> None:
        """Close the connection after the response."""
        self._go_on()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass a held call to the ordinary path. The service decides how the call ends."""
        self._go_on()
        super().connection_lost(exc)

    def _may_be_quick(self) -> bool:
        """Return True if the request is ordinary, alone on its connection, and no output is pending."""
        # Before the first request it is None, although uvicorn's annotation excludes that.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return (
            (cycle is None or cycle.response_complete)
            and not self.pipeline
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and self.leaves_at is None
            and not self.transport.is_closing()
        )

    def _let_go(self) -> None:
        """Pass a held request to the ordinary path."""
        held, self.held = self.held, None
        self.expect_100_continue = False  # A trailer may have set it.
        super().on_headers_complete()
        for body in held or ():
            super().on_body(body)

    def _hold(self, started: StartedCall | StartedSession) -> None:
        if not started.waits and started.answer:
            self._send(started.answer)
            return
        self.started, self._context = started, copy_context()
        grace = started.grace
        self._grace = None if grace is None else self.loop.call_later(grace, self._go_on)
        if started.waits:
            started.watch(self._on_change)
        else:
            self._go_on()

    def _on_change(self) -> None:
        """Send the answer of the held call if it has one. The task of the call calls this method."""
        if self.started is not None and (answer := self.started.answer):
            self._release()
            self._send(answer)
        else:
            self.loop.call_soon(self._go_on, context=self._context)

    def _release(self) -> StartedCall | StartedSession:
        started, self.started = cast("StartedCall | StartedSession", self.started), None
        if self._grace is not None:
            self._grace.cancel()
        started.watch(None)
        return started

    def _go_on(self) -> None:
        """Pass a held call to the ordinary path in its current state."""
        if self.started is None:
            return
        self._release().resume_in(cast("dict[str, Any]", self.scope))
        parser, self.parser = self.parser, cast("Any", Parsed(self.scope["method"]))
        try:
            # Call the methods of the library directly: the request is complete, and its connection may be
            # closing.
            HttpToolsProtocol.on_headers_complete(self)
            HttpToolsProtocol.on_message_complete(self)
        finally:
            self.parser = parser

    def _send(self, answer: bytes | Answered) -> None:
        more = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        # Head and body are already joined here.
        if isinstance(answer, bytes):
            self.joined.plain.write(HEAD % (more, len(answer), answer))
        else:
            self.joined.plain.write(_of_session(answer, more))
        self.on_response_complete()


def _endpoint(url: bytes) -> str:
    """Return the path of a request if it is an endpoint, else "". The server may not exist."""
    if url == PATH:
        return ENDPOINT
    path = url.decode("latin-1")
    return path if further_path(path) == path else ""


def _of_session(answer: Answered, more: bytes) -> bytes:
    """Return the complete response to a request that opens, confirms or ends a session."""
    more = (KIND if answer.body else b"") + more
    if answer.session_id is not None:
        more += b"mcp-session-id: %b\r\n" % answer.session_id.encode()
    return HEAD_OF_SESSION % (STATUS_LINE[answer.status], more, len(answer.body), answer.body)
