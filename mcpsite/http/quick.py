"""Answers at once what needs no waiting: no task, no ASGI messages, one write.

Most requests to an MCP server are lists, pings and quick tools. Uvicorn makes a task and several messages of
each; here a request that arrived in one piece is offered to the service first, as a plain call. What the
service does not answer at once goes the ordinary way, as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mcpsite.http.connection import BoundedConnection, Refused

PATH = b"/mcp"
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncache-control: no-cache, no-transform\r\n%b"
    b"content-length: %d\r\n\r\n%b"
)
# Headers, body and the client's address in, the JSON body of a 200 answer out; None: not at once.
Quick = Callable[[Iterable[tuple[bytes, bytes]], bytes, str], bytes | None]


class QuickAnswers(BoundedConnection):
    """HTTP with a short cut; ``quick`` is set for the whole process when the service runs."""

    quick: Quick | None = None
    held: list[bytes] | None = None

    def on_headers_complete(self) -> None:
        """Hold a POST to the endpoint back until its body is there."""
        if self.url == PATH and type(self).quick is not None and self._may_be_quick():
            self.held = []
            self.scope["method"] = "POST"  # The sign that the headers are complete.
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
            quick = type(self).quick
            address = self.client[0] if self.client else ""
            answer = quick(self.scope["headers"], b"".join(self.held), address) if quick else None
            if answer is not None:
                self.held = None
                self._send(answer)
                return
            self._let_go()
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        """Parse; a request that has not arrived whole is none to hold, its body has a time limit."""
        super().data_received(data)
        if self.held is not None:
            with suppress(Refused):
                self._let_go()

    def _may_be_quick(self) -> bool:
        """An ordinary request, alone on its connection, whose client reads what it is sent."""
        # Uvicorn's annotation forgets that there is none before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return (
            self.parser.get_method() == b"POST"
            and (cycle is None or cycle.response_complete)
            and not self.pipeline
            and not self.expect_100_continue
            and not self.flow.write_paused
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and not self.transport.is_closing()
        )

    def _let_go(self) -> None:
        """The ordinary way, from where it was left."""
        held, self.held = self.held, None
        self.expect_100_continue = False  # A trailer may have said so.
        super().on_headers_complete()
        for body in held or ():
            super().on_body(body)

    def _send(self, answer: bytes) -> None:
        more = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        self.transport.write(HEAD % (more, len(answer), answer))
        self.on_response_complete()
