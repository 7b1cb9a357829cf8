"""An HTTP connection with limits that uvicorn lacks, for all input before authentication (S28)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

STATUS_LINES = b"HTTP/1.1 "
CONTENT_LENGTH = b"\r\ncontent-length: "
HEADER_SECONDS = 10.0
# How long a process that is stopping waits for the first request on a connection.
ARRIVAL_SECONDS = 1.0
HEADER_BYTES = 32 * 1024
# More than /mcp accepts, because /mcp has its own error for too many fields.
HEADER_FIELDS = 128
# If a request is answered before its end, this many more bytes are read, so that its sender reads the
# answer.
UNREAD_BYTES = 64 * 1024 * 1024
REQUESTS_AHEAD = 100
# The key for ``writer`` in the extensions of an ASGI scope.
WRITER = "mcp.writer"


class Refused(Exception):
    """Raised to stop the parsing of a refused connection."""


class JoinedWrites:
    """A transport that sends the head of a response together with the body, if the length is known.

    Uvicorn writes head and body separately, and uvloop sends each with its own system call and packet.
    """

    __slots__ = ("_ending", "_head", "_transport", "unread")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._ending = False
        # True as long as a request is incomplete.
        self.unread = False

    @property
    def plain(self) -> asyncio.Transport:
        """The wrapped transport."""
        return self._transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data. A response's head is held back until its body follows, or until ``release``."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(STATUS_LINES) and CONTENT_LENGTH in data:
            self._head = data
            return
        self._transport.write(data)

    def release(self) -> None:
        """Send a head that has no body, as for a HEAD request."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def write_chunk(self, data: bytes) -> bool:
        """Write a chunk of a body.

        Return False if other data is still buffered or the connection is closing.
        """
        transport = self._transport
        if self._head or self._ending or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    @property
    def ending(self) -> bool:
        """True if the response was sent and the end of the request is still awaited."""
        return self._ending

    def is_closing(self) -> bool:
        """Return True if nothing may be written any more."""
        return self._ending or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection after buffered data has been sent.

        If the client still sends its request, first close only this side of the connection. Closing both
        sides would reset the connection, and the client might lose the response. A second call closes the
        connection in any case.
        """
        self.release()
        if self.unread and not self.is_closing() and self._transport.can_write_eof():
            self._ending = True
            self._transport.write_eof()
        else:
            self._transport.close()


class Trailers(list[tuple[bytes, bytes]]):
    """A replacement for a request's headers after its first chunk. It counts fields and drops them.

    A proxy might have checked, set or removed a header, so fields after the body must not be used as
    headers (RFC 9110 section 6.5.1).
    """

    def __init__(self, connection: BoundedConnection) -> None:
        super().__init__()
        self._connection = connection
        self._fields = self._bytes = 0

    def append(self, field: tuple[bytes, bytes]) -> None:
        """Count a field. Raise Refused if there are more fields or bytes than allowed in headers."""
        self._fields += 1
        self._bytes += len(field[0]) + len(field[1])
        if self._fields > HEADER_FIELDS or self._bytes > HEADER_BYTES:
            self._connection.stop(431)


class BoundedConnection(HttpToolsProtocol):
    """An HTTP connection with limits for size and time of everything except bodies and responses.

    The limits apply to headers, trailers, chunk sizes and extensions, pipelined requests, and the rest
    of a request that was answered early. The application limits bodies (``bodies``).
    """

    # Instances share one table of attribute names, whose size Python limits (PEP 412). Uvicorn's attributes
    # fill it. With more attributes, each instance would need a table of its own.
    __slots__ = (
        "active",
        "idle_since",
        "joined",
        "keep_alive",
        "leaves_at",
        "loose",
        "moved",
        "since",
        "unwanted",
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # The start time and the size of an incomplete part that has a time limit.
        self.since: float | None = None
        self.loose = 0
        # The start of the idle time: everything has been answered and no new request has started.
        self.idle_since: float | None = None
        # The number of bytes of a request that arrived after its response.
        self.unwanted = 0
        # True if the last data contained body data or the end of the headers.
        self.moved = False
        self.keep_alive = False
        # Set when the process is stopping. Requests are answered until this time, and then the connection
        # is closed.
        self.leaves_at: float | None = None
        # The request that is being answered.
        self.active: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for headers, so that a connection that sends nothing counts as slow."""
        self.joined = JoinedWrites(transport)
        super().connection_made(cast("asyncio.Transport", self.joined))
        self.since = self.loop.time()

    def handle_websocket_upgrade(self) -> None:
        """Stop joining writes and limiting headers."""
        self.since = None
        self.joined.release()
        self.transport = self.joined.plain
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Parse data, and record when incomplete parts started."""
        before = self.scope
        super().data_received(data)
        scope = cast("dict[str, Any] | None", self.scope)
        if self.joined.unread:
            if self.joined.ending:
                self._drop(len(data))
            if not self.moved:
                self._count(len(data))
            self.moved = False
        # Uvicorn creates a scope with the first byte of a request, and sets its method after the headers.
        elif scope is not None and "method" in scope:
            self.since = None
        else:
            self._count(len(data) if scope is before else self._begun(data))

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        self.idle_since = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Start a request. Raise Refused if it is invalid or exceeds a limit."""
        if self.transport.is_closing():
            raise Refused
        headers = cast("list[tuple[bytes, bytes]]", self.scope["headers"])
        self._check_codings(headers)
        if len(headers) > HEADER_FIELDS or _size(headers) + len(self.url) > HEADER_BYTES:
            self.stop(431)
        if len(self.pipeline) >= REQUESTS_AHEAD:
            self.stop(429)
        cycle = self.cycle
        self.scope["extensions"] = cast("Any", {WRITER: writer})
        super().on_headers_complete()
        if self.cycle is not cycle:
            # If the response comes before the end of the request, the rest of an unwanted body follows.
            # Therefore the response must be the last on this connection.
            self.keep_alive = self.cycle.keep_alive and self.leaves_at is None
            self.cycle.keep_alive = False
            self.joined.unread = self.moved = True
            self.since = None

    def on_chunk_header(self) -> None:
        """Treat the fields that follow as trailers. The parser does not distinguish them from headers."""
        if type(self.headers) is list:
            self._check_codings(self.headers)  # A held request has not been checked yet.
            self.headers = Trailers(self)

    def _check_codings(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Raise Refused for any transfer coding but chunked (RFC 9112 sections 6.1 and 6.3)."""
        codings = b",".join([value for name, value in headers if name == b"transfer-encoding"]).lower()
        if codings not in (b"", b"chunked"):
            self.stop(501 if codings.endswith(b"chunked") else 400)

    def on_body(self, body: bytes) -> None:
        """Pass the body on. A client that sends body data does not count as slow."""
        self.moved, self.loose = True, 0
        if not self.joined.ending:
            self.since = None
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish a request, and allow the next one on this connection."""
        if self.joined.unread:
            self.joined.unread = False
            if self.joined.ending:
                self.joined.close()
                return
            if not self.cycle.response_started:
                self.cycle.keep_alive = self.keep_alive
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Finish a response. Start the time limits for the rest of its request and for the next request.

        This replaces uvicorn's method. Any byte, even an empty line, cancels uvicorn's timer, so the
        connection could be held open forever.
        """
        self.joined.release()
        self.server_state.total_requests += 1
        if self.joined.ending:
            self.since = self.loop.time()
            self.flow.resume_reading()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif "method" in self.scope:  # No new request has started: see ``data_received``.
            self.idle_since = self.loop.time()

    def shutdown(self) -> None:
        """Close the connection after the response.

        If no request has arrived on the connection yet, wait for one for a moment.
        """
        self.keep_alive = False
        is_on_its_way = self.since is not None and not self.joined.ending
        if self.leaves_at is None:
            self.leaves_at = self.loop.time() + ARRIVAL_SECONDS
            if is_on_its_way:
                self.loop.call_at(self.leaves_at, self.shutdown)
        if not is_on_its_way or self.loop.time() >= self.leaves_at:
            super().shutdown()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.active = cycle
        super()._start_asgi_task(cycle, app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the active request. Uvicorn would notify only the newest request, which may be queued."""
        self._leave()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Respond 400 to invalid HTTP, unless a response has been started."""
        if self._give_up():
            super().send_400_response(msg)
        else:
            self.joined.close()

    def refuse_if_slow(self, now: float) -> None:
        """Refuse an incomplete part after its time limit (408).

        ``now`` is the event loop's time in seconds.
        """
        if self.since is None and self.joined.ending:
            self.since = now  # The response has been interrupted.
        if self.since is not None and self.since < now - HEADER_SECONDS:
            self.refuse(408)

    def close_if_idle(self, now: float) -> None:
        """Close a connection that has been idle for too long. ``now`` is the event loop's time in seconds."""
        if self.idle_since is not None and self.idle_since < now - self.timeout_keep_alive:
            self.timeout_keep_alive_handler()

    def stop(self, status: int) -> NoReturn:
        """Refuse a request from within the parser, and stop parsing by raising ``Refused``."""
        self.refuse(status)
        raise Refused

    def refuse(self, status: int) -> None:
        """Respond with a status and no body if that is possible, and close the connection."""
        if self._give_up():
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.joined.close()

    def _give_up(self) -> bool:
        """Abandon the connection. Return True if a response to the last request can still be sent."""
        closing, self.joined.unread = self.transport.is_closing(), False
        active = self.active
        if active is None or active.response_complete:
            return not closing
        self._leave()  # Prevents a second response.
        return not closing and not active.response_started and not self.pipeline

    def _leave(self) -> None:
        """Mark the client of the active request as disconnected."""
        if self.active is not None and not self.active.response_complete:
            self.active.disconnected = True
            self.active.message_event.set()

    def _begun(self, data: bytes) -> int:
        """Return the size of headers that began in ``data``, possibly after the body of another request."""
        return len(self.url) + _size(self.headers) + len(data) - (data.rfind(b"\n") + 1)

    def _count(self, size: int) -> None:
        """Refuse an incomplete part that exceeds its size limit (431)."""
        if self.since is None:
            self.since, self.loose = self.loop.time(), 0
        self.loose += size
        if self.loose > HEADER_BYTES:
            self.refuse(431)

    def _drop(self, size: int) -> None:
        """Close a connection whose client does not stop sending a refused request."""
        self.unwanted += size
        if self.unwanted > UNREAD_BYTES:
            self.joined.close()


def writer(send: object) -> Callable[[bytes], bool] | None:
    """Return a function that writes a part of a started body without an ASGI message, or None.

    The function returns False without writing if the part would be buffered or comes too late. The result
    is None if ``send`` does not belong to this server, because a wrapper of ``send`` would not see the
    writes.
    """
    cycle = getattr(send, "__self__", None)
    if isinstance(cycle, RequestResponseCycle) and cycle.chunked_encoding:
        return partial(_write_piece, cycle, cast("JoinedWrites", cycle.transport))
    return None


def _write_piece(cycle: RequestResponseCycle, joined: JoinedWrites, data: bytes) -> bool:
    # After the end of the body, such a part would look like the start of the next response.
    return not (cycle.response_complete or cycle.disconnected) and joined.write_chunk(data)


def _size(fields: Any) -> int:
    return sum(len(name) + len(value) for name, value in fields)
