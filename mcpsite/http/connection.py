"""One HTTP connection with bounds that uvicorn lacks, on all that comes before anybody is known (S28)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

STATUS_LINES = b"HTTP/1.1 "
CONTENT_LENGTH = b"\r\ncontent-length: "
HEADER_SECONDS = 10.0
# How long a process that stops waits for the first request of a connection.
ARRIVAL_SECONDS = 1.0
HEADER_BYTES = 32 * 1024
# More than /mcp takes, which refuses in words of its own.
HEADER_FIELDS = 128
# What is still taken of a request that was answered before its end, so that its sender reads the answer.
UNREAD_BYTES = 64 * 1024 * 1024
REQUESTS_AHEAD = 100
# Where an application finds ``writer`` among the extensions of a scope (ASGI).
WRITER = "mcp.writer"


class Refused(Exception):
    """The connection was refused: nothing that comes on it is looked at any more."""


class JoinedWrites:
    """A transport that sends the head of an answer of known length together with its body.

    Uvicorn writes them one after the other, and uvloop makes a system call and a packet of each.
    """

    __slots__ = ("_ending", "_head", "_transport", "unread")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._ending = False
        # Whether the request that is being received has not come to its end.
        self.unread = False

    @property
    def plain(self) -> asyncio.Transport:
        """The transport itself."""
        return self._transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write; the head of an answer is held until its body follows, or until ``release``."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(STATUS_LINES) and CONTENT_LENGTH in data:
            self._head = data
            return
        self._transport.write(data)

    def release(self) -> None:
        """Send a head that no body follows: of an answer to HEAD."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def write_chunk(self, data: bytes) -> bool:
        """Write a chunk of a body; False if something waits to be sent, or nothing may be sent any more."""
        transport = self._transport
        if self._head or self._ending or transport.is_closing() or transport.get_write_buffer_size():
            return False
        transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    @property
    def ending(self) -> bool:
        """Whether everything was said, and the end of the request is waited for."""
        return self._ending

    def is_closing(self) -> bool:
        """Whether nothing may be written any more."""
        return self._ending or self._transport.is_closing()

    def close(self) -> None:
        """Close after what is held.

        While the client still sends its request, only our side is ended at first: closing would reset the
        connection, and with it what the client has not read yet. The second time it is closed whatever comes.
        """
        self.release()
        if self.unread and not self.is_closing() and self._transport.can_write_eof():
            self._ending = True
            self._transport.write_eof()
        else:
            self._transport.close()


class Trailers(list[tuple[bytes, bytes]]):
    """Takes the place of a request's headers behind its first chunk: what comes now is counted and dropped.

    A field that a proxy would have checked, set or removed among the headers must not come in behind the body
    (RFC 9110 section 6.5.1).
    """

    def __init__(self, connection: BoundedConnection) -> None:
        super().__init__()
        self._connection = connection
        self._fields = self._bytes = 0

    def append(self, field: tuple[bytes, bytes]) -> None:
        """Count; raises Refused over the limits of headers."""
        self._fields += 1
        self._bytes += len(field[0]) + len(field[1])
        if self._fields > HEADER_FIELDS or self._bytes > HEADER_BYTES:
            self._connection.stop(431)


class BoundedConnection(HttpToolsProtocol):
    """HTTP with bounds on all that is neither body nor answer, in bytes and in time; uvicorn has none.

    That is the headers, the trailers, the sizes of chunks and what is written behind them, the rest of a
    request that was answered before its end, and requests sent ahead of their turn. The size and time of
    bodies is for the application to bound (``bodies``).
    """

    # Uvicorn's own fill the dictionary that Python shares among instances: with ours each would have its own.
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
        # Since when something is incomplete that must not take long, and the bytes it has so far.
        self.since: float | None = None
        self.loose = 0
        # Since when everything is answered and the next request has not begun.
        self.idle_since: float | None = None
        # What came of a request after its answer.
        self.unwanted = 0
        # Whether headers ended or body arrived in the bytes that are being parsed.
        self.moved = False
        self.keep_alive = False
        # The process stops: a request that arrives until then is answered, and its connection ends.
        self.leaves_at: float | None = None
        # The request whose turn it is to be answered.
        self.active: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection that sends nothing is as slow as one that sends its headers slowly."""
        self.joined = JoinedWrites(transport)
        super().connection_made(cast("asyncio.Transport", self.joined))
        self.since = self.loop.time()

    def handle_websocket_upgrade(self) -> None:
        """From here on nothing is an answer with a head and a body."""
        self.since = None
        self.joined.release()
        self.transport = self.joined.plain
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Parse; note since when something is incomplete."""
        before = self.scope
        super().data_received(data)
        scope = cast("dict[str, Any] | None", self.scope)
        if self.joined.unread:
            if self.joined.ending:
                self._drop(len(data))
            if not self.moved:
                self._count(len(data))
            self.moved = False
        # Uvicorn makes a scope at a request's first byte and names the method when its headers are complete.
        elif scope is not None and "method" in scope:
            self.since = None
        else:
            self._count(len(data) if scope is before else self._begun(data))

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.idle_since = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin a request; raises Refused for one that is not understood or out of bounds."""
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
            # An answer that comes before the end of its request is the last one: what follows on the
            # connection is the rest of an unwanted body.
            self.keep_alive = self.cycle.keep_alive and self.leaves_at is None
            self.cycle.keep_alive = False
            self.joined.unread = self.moved = True
            self.since = None

    def on_chunk_header(self) -> None:
        """From the first chunk on, fields are trailers: the parser tells them like headers."""
        if type(self.headers) is list:
            self._check_codings(self.headers)  # Of a request that was held back nobody has looked at them.
            self.headers = Trailers(self)

    def _check_codings(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Raises Refused for what is coded otherwise than in chunks (RFC 9112 sections 6.1 and 6.3)."""
        codings = b",".join([value for name, value in headers if name == b"transfer-encoding"]).lower()
        if codings not in (b"", b"chunked"):
            self.stop(501 if codings.endswith(b"chunked") else 400)

    def on_body(self, body: bytes) -> None:
        """Hand the body on; a sender of it is not slow."""
        self.moved, self.loose = True, 0
        if not self.joined.ending:
            self.since = None
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The end of a request: its connection may serve the next one."""
        if self.joined.unread:
            self.joined.unread = False
            if self.joined.ending:
                self.joined.close()
                return
            if not self.cycle.response_started:
                self.cycle.keep_alive = self.keep_alive
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Nothing of an answer stays behind; the rest of its request, and the next one, have limits of time.

        This replaces uvicorn's own, which sets a timer behind each answer. Any byte cancels that, also one of
        an empty line, and then nothing ended the connection.
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
        elif "method" in self.scope:  # The headers of the next request have not begun: see ``data_received``.
            self.idle_since = self.loop.time()

    def shutdown(self) -> None:
        """The connection ends with the answer, whenever its request does.

        A request that a client has just connected for is on its way: it is waited for a moment.
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
        """Uvicorn tells the newest request only, which may still be waiting for its turn."""
        self._leave()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; nothing if an answer was sent or is being sent."""
        if self._give_up():
            super().send_400_response(msg)
        else:
            self.joined.close()

    def refuse_if_slow(self, now: float) -> None:
        """Refuse what should have come to its end by now, in seconds of the loop's clock (408)."""
        if self.since is None and self.joined.ending:
            self.since = now  # The answer broke off.
        if self.since is not None and self.since < now - HEADER_SECONDS:
            self.refuse(408)

    def close_if_idle(self, now: float) -> None:
        """Close what has waited too long for its next request, in seconds of the loop's clock."""
        if self.idle_since is not None and self.idle_since < now - self.timeout_keep_alive:
            self.timeout_keep_alive_handler()

    def stop(self, status: int) -> NoReturn:
        """Refuse inside of the parser, which raises ``Refused`` on and parses nothing more."""
        self.refuse(status)
        raise Refused

    def refuse(self, status: int) -> None:
        """Answer with a bare status, where an answer can be given, and close."""
        if self._give_up():
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.joined.close()

    def _give_up(self) -> bool:
        """Give the connection up; whether an answer to what came last can still be told from others."""
        closing, self.joined.unread = self.transport.is_closing(), False
        active = self.active
        if active is None or active.response_complete:
            return not closing
        self._leave()  # So that only one of the two answers.
        return not closing and not active.response_started and not self.pipeline

    def _leave(self) -> None:
        """Tell the application that the client of what it is answering has gone."""
        if self.active is not None and not self.active.response_complete:
            self.active.disconnected = True
            self.active.message_event.set()

    def _begun(self, data: bytes) -> int:
        """The size of headers that began in ``data``, perhaps behind the body of another request."""
        return len(self.url) + _size(self.headers) + len(data) - (data.rfind(b"\n") + 1)

    def _count(self, size: int) -> None:
        """Refuse what has grown too long without coming to an end (431)."""
        if self.since is None:
            self.since, self.loose = self.loop.time(), 0
        self.loose += size
        if self.loose > HEADER_BYTES:
            self.refuse(431)

    def _drop(self, size: int) -> None:
        """End a connection whose client goes on sending what was refused."""
        self.unwanted += size
        if self.unwanted > UNREAD_BYTES:
            self.joined.close()


def writer(send: object) -> Callable[[bytes], bool] | None:
    """What writes a piece of a body that has begun, without a message of ASGI for it.

    It returns False, and has written nothing, if the piece would have to wait or comes too late. None if
    ``send`` is not this server's own: what wraps that would not see what is written.
    """
    cycle = getattr(send, "__self__", None)
    if isinstance(cycle, RequestResponseCycle) and cycle.chunked_encoding:
        return partial(_write_piece, cycle, cast("JoinedWrites", cycle.transport))
    return None


def _write_piece(cycle: RequestResponseCycle, joined: JoinedWrites, data: bytes) -> bool:
    # Behind its end, a piece would be taken for the beginning of the next answer.
    return not (cycle.response_complete or cycle.disconnected) and joined.write_chunk(data)


def _size(fields: Any) -> int:
    return sum(len(name) + len(value) for name, value in fields)
