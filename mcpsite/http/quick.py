"""Answers what needs little or no waiting without a task, without ASGI messages, in one write.

Most requests to an MCP server are lists, pings and quick tools. Uvicorn makes a task and several messages of
each; here a request that arrived in one piece is offered to the service first, as a plain call. What the
service does not take goes the ordinary way, as if nothing had happened. A call that it has begun is held
until it has an answer; if that does not come soon, or something else happens on the connection, the call goes
the ordinary way from where it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mcp_app.protocol.messages.server import ENDPOINT
from mcpsite.http.connection import BoundedConnection, Refused

if TYPE_CHECKING:  # Loaded before Django is set up.
    from mcp_app.execution.calls.reply import Answered
    from mcp_app.transports.streamable_http.shortcut.begun import Begun, BegunSession

PATH = ENDPOINT.encode()
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-cache, no-transform\r\n%b"
    b"content-length: %d\r\n\r\n%b"
)
HEAD_OF_SESSION = b"%bcache-control: no-cache, no-transform\r\n%bcontent-length: %d\r\n\r\n%b"
KIND = b"content-type: application/json\r\n"
METHODS = {b"POST": "POST", b"DELETE": "DELETE"}
# Headers, body and the client's address in, the JSON body of a 200 answer out; None: not taken.
Quick = Callable[[Iterable[tuple[bytes, bytes]], bytes, str], "bytes | Begun | BegunSession | None"]
# The same for DELETE, which has no body.
QuickDelete = Callable[[Iterable[tuple[bytes, bytes]], str], "BegunSession | None"]


class Parsed:
    """What the parser says of every request that may be held; by now it may be reading the next one."""

    def __init__(self, method: str) -> None:
        self.get_method = method.encode

    get_http_version = staticmethod(lambda: "1.1")
    should_keep_alive = staticmethod(lambda: True)
    should_upgrade = staticmethod(lambda: False)


class QuickAnswers(BoundedConnection):
    """HTTP with a short cut; what it asks is set for the whole process when the service runs."""

    __slots__ = ("_context", "_grace", "begun", "held")

    quick: Quick | None = None
    quick_delete: QuickDelete | None = None
    _context: Context

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.held: list[bytes] | None = None
        self.begun: Begun | BegunSession | None = None
        self._grace: asyncio.TimerHandle | None = None

    def on_message_begin(self) -> None:
        """A request that was sent ahead of its turn waits behind the one that is held."""
        if self.begun is not None:
            self._go_on()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Hold a POST to the endpoint back until its body is there, and a DELETE until its end."""
        method = METHODS.get(self.parser.get_method()) if self.url == PATH else None
        if method is not None and type(self).quick is not None and self._may_be_quick():
            self.held = []
            self.scope["method"] = method  # The sign that the headers are complete.
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect a held body."""
        if self.held is None:
            super().on_body(body)
        else:
            self.held.append(body)

    def on_message_complete(self) -> None:
        """Answer a held request, or let it go the ordinary way."""
        if self.held is not None:
            quick = type(self).quick if self.scope["method"] == "POST" else self._delete
            address = self.client[0] if self.client else ""
            answer = quick(self.scope["headers"], b"".join(self.held), address) if quick else None
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
        self, headers: Iterable[tuple[bytes, bytes]], body: bytes, address: str
    ) -> BegunSession | None:
        quick_delete = type(self).quick_delete
        return quick_delete(headers, address) if quick_delete and not body else None

    def data_received(self, data: bytes) -> None:
        """Parse; a request that has not arrived whole is none to hold, its body has a time limit."""
        if self.begun is not None:
            self._go_on()
        super().data_received(data)
        if self.held is not None:
            with suppress(Refused):
                self._let_go()

    def shutdown(self) -> None:
        """The connection ends with the answer."""
        self._go_on()
        super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """What that means for a call is for the service to say."""
        self._go_on()
        super().connection_lost(exc)

    def _may_be_quick(self) -> bool:
        """An ordinary request, alone on its connection, whose client reads what it is sent."""
        # Uvicorn's annotation forgets that there is none before the first request.
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
        """The ordinary way, from where it was left."""
        held, self.held = self.held, None
        self.expect_100_continue = False  # A trailer may have said so.
        super().on_headers_complete()
        for body in held or ():
            super().on_body(body)

    def _hold(self, begun: Begun | BegunSession) -> None:
        if not begun.waits and begun.answer:
            self._send(begun.answer)
            return
        self.begun, self._context = begun, copy_context()
        grace = begun.grace
        self._grace = None if grace is None else self.loop.call_later(grace, self._go_on)
        if begun.waits:
            begun.watch(self._on_change)
        else:
            self._go_on()

    def _on_change(self) -> None:
        """There is something to send for the call that is held; called by its task."""
        if self.begun is not None and (answer := self.begun.answer):
            self._release()
            self._send(answer)
        else:
            self.loop.call_soon(self._go_on, context=self._context)

    def _release(self) -> Begun | BegunSession:
        begun, self.begun = cast("Begun | BegunSession", self.begun), None
        if self._grace is not None:
            self._grace.cancel()
        begun.watch(None)
        return begun

    def _go_on(self) -> None:
        """Have a call that is held go the ordinary way, from where it stands."""
        if self.begun is None:
            return
        self._release().go_on_in(cast("dict[str, Any]", self.scope))
        parser, self.parser = self.parser, cast("Any", Parsed(self.scope["method"]))
        try:
            # Not our own: the request is complete, and its connection may be closing.
            HttpToolsProtocol.on_headers_complete(self)
            HttpToolsProtocol.on_message_complete(self)
        finally:
            self.parser = parser

    def _send(self, answer: bytes | Answered) -> None:
        more = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        # Head and body are joined already.
        if isinstance(answer, bytes):
            self.joined.plain.write(HEAD % (more, len(answer), answer))
        else:
            self.joined.plain.write(_of_session(answer, more))
        self.on_response_complete()


def _of_session(answer: Answered, more: bytes) -> bytes:
    """The whole answer to a request that opens, confirms or ends a session."""
    more = (KIND if answer.body else b"") + more
    if answer.session_id is not None:
        more += b"mcp-session-id: %b\r\n" % answer.session_id.encode()
    return HEAD_OF_SESSION % (STATUS_LINE[answer.status], more, len(answer.body), answer.body)
