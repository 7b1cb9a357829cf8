"""A connection that speaks HTTP/1.1, one request at a time.

The parser is llhttp, which Node.js uses, in its strict mode. Everything that it and RFC 9112 leave open is
refused here, because two readers of one answer must find the same end of it. A connection is only used again
after an answer whose end is certain. Empty lines may follow it in the same packet, but no other bytes.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Sequence
from typing import Any, Final

import httptools

# Status line and headers, those of interim answers, trailers, and the lengths of chunks.
MAX_HEAD_BYTES: Final = 100 * 1024
# Bytes around each byte of a body: a chunk of one byte needs five.
_MAX_AROUND: Final = 8
# The server is stopped while this much of a body waits to be read.
MAX_WAITING_BYTES: Final = 128 * 1024
_HEAD: Final = re.compile(
    rb"[A-Z]+ [\x21-\x7e]+ HTTP/1\.1\r\n(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e]*\r\n)+\r\n"
)


def request_head(method: str, target: str, headers: Sequence[tuple[str, str]]) -> bytes:
    """Return the bytes before the body. Raise ValueError if a part could be read as another part."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers])
    head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode()
    if head.count(b"\n") != len(headers) + 2 or not _HEAD.fullmatch(head):
        raise ValueError("This is not the head of a request.")
    return head


class BrokenError(Exception):
    """A connection that ended too early, or an answer that is not strict HTTP/1.1."""


class Response:
    """An answer that is arriving. Names of ``headers`` are in lower case."""

    __slots__ = (
        "_body_bytes", "_chunks", "_ends_with_connection", "_has_begun", "_has_body", "_is_broken",
        "_parser", "_received", "_waiter", "_waiting_bytes", "has_excess", "has_head", "headers",
        "is_complete", "is_last", "status", "wire",
    )  # fmt: skip

    def __init__(self, wire: Wire, *, has_body: bool) -> None:
        self.wire = wire
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.has_head = self.is_complete = False
        # True if the server closes the connection after the answer.
        self.is_last = True
        # True if bytes followed the answer.
        self.has_excess = False
        self._has_body, self._has_begun = has_body, False
        self._ends_with_connection = self._is_broken = False
        self._chunks: list[bytes] = []
        self._received = self._body_bytes = self._waiting_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    async def head(self) -> None:
        """Wait for status and headers. Raise BrokenError if they do not arrive."""
        while not self.has_head:
            if self._is_broken:
                raise BrokenError
            await self._change()

    async def read(self) -> bytes:
        """Return the waiting bytes of the body, or b"" at its end. Raise BrokenError if it ends early."""
        while not self._chunks:
            if self.is_complete:
                return b""
            if self._is_broken:
                raise BrokenError
            await self._change()
        # A server can send each byte as one chunk. Together, they cost the caller one step.
        data = b"".join(self._chunks)
        self._chunks.clear()
        self._waiting_bytes = 0
        self.wire.resume()
        return data

    def close(self) -> None:
        """End the turn. The connection closes at once unless it can be used again."""
        self.release()
        self.wire.finish(self)

    def release(self) -> None:
        """Release the parser, which refers to this object."""
        self._parser = None

    async def _change(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def feed(self, data: bytes) -> None:
        """Parse received bytes."""
        if self.is_complete or self._is_broken or self._parser is None:
            self.has_excess = True
            return
        self._received += len(data)
        try:
            # The parser accepts empty lines before the answer, and the protocols RTSP and ICE.
            if not self._has_begun and data[:1] != b"H":
                raise BrokenError
            self._has_begun = True
            self._parser.feed_data(data)
        except (BrokenError, httptools.HttpParserError, httptools.HttpParserUpgrade):
            # After a complete answer, the bytes that follow it are the fault.
            self.has_excess = True
            self._is_broken = not self.is_complete
        if self._received - self._body_bytes > MAX_HEAD_BYTES + _MAX_AROUND * self._body_bytes:
            self._is_broken = True
        if self._waiting_bytes > MAX_WAITING_BYTES and not self.is_complete:
            self.wire.pause()
        if self.has_head or self._is_broken:
            self._wake()

    def end(self, *, is_clean: bool) -> None:
        """Record the end of the connection."""
        self.is_last = True
        if not self.is_complete:
            if self.has_head and self._ends_with_connection and is_clean:
                self.is_complete = True
            else:
                self._is_broken = True
        self._wake()

    # Called by the parser. Its exceptions arrive in ``feed``.

    def on_message_begin(self) -> None:
        """Record bytes after the end of the answer."""
        if self.is_complete:
            self.has_excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header. Trailers and the headers of another answer are ignored."""
        if not self.has_head:
            self.headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Accept the head of the answer, or ignore that of an interim answer."""
        if self.has_head or self._parser is None:
            return
        status = self._parser.get_status_code()
        version = self._parser.get_http_version()
        if status < 100 or status == 101 or version not in ("1.1", "1.0"):
            raise BrokenError
        if status < 200:
            self.headers.clear()
            return
        codings, has_length = [], False
        for name, value in self.headers:
            if name == "transfer-encoding":
                codings.append(value)
            elif name == "content-length":
                has_length = True
        # HTTP/1.0 knows no chunks (RFC 9112 section 6.1).
        if codings and (len(codings) > 1 or codings[0].lower() != "chunked" or version == "1.0"):
            raise BrokenError
        self.status, self.has_head = status, True
        self._ends_with_connection = not codings and not has_length
        if not self._has_body:
            self._complete(self._parser)

    def on_body(self, data: bytes) -> None:
        """Store a piece of the body."""
        if self.is_complete:
            self.has_excess = True
            return
        self._body_bytes += len(data)
        self._waiting_bytes += len(data)
        self._chunks.append(data)

    def on_message_complete(self) -> None:
        """Record the end of the answer. Interim answers end as well."""
        if self.has_head and not self.is_complete and self._parser is not None:
            self._complete(self._parser)

    def _complete(self, parser: httptools.HttpResponseParser) -> None:
        self.is_complete = True
        self.is_last = not parser.should_keep_alive()


class Wire(asyncio.Protocol):
    """One connection. ``transport`` is set as soon as it is open."""

    __slots__ = ("_is_paused", "_response", "transport")

    def __init__(self) -> None:
        self.transport: Any = None
        self._response: Response | None = None
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._response is None:
            # Nothing was asked: an answer to the next request would be mistaken for its answer.
            self.abort()
        else:
            self._response.feed(data)

    def eof_received(self) -> None:
        self._end(is_clean=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(is_clean=exc is None)

    def _end(self, *, is_clean: bool) -> None:
        if self._response is not None:
            self._response.end(is_clean=is_clean)
        elif not self.transport.is_closing():
            self.transport.close()

    def ask(self, head: bytes, body: bytes | None = None, *, has_body: bool = True) -> Response:
        """Send a request and return its answer, which is still arriving.

        ``has_body`` is False if the answer to the method has none, whatever its headers are.
        """
        response = self._response = Response(self, has_body=has_body)
        self.transport.write(head + body if body else head)
        return response

    def is_usable(self) -> bool:
        """Return True if an idle connection is still open, as far as this machine knows."""
        return not self.transport.is_closing() and not is_readable(self.transport)

    def finish(self, response: Response) -> None:
        """End the turn of a response. The connection closes at once if it cannot be used again."""
        if self._response is response:
            self._response = None
        is_usable = response.is_complete and not response.is_last and not response.has_excess
        # A server may answer before it has read the whole request.
        if not is_usable or self.transport.get_write_buffer_size():
            self.abort()
        else:
            self.resume()

    def leave(self, response: Response) -> None:
        """End the turn of a response without a body, whose connection changes its protocol.

        Raise BrokenError if bytes followed the response.
        """
        self._response = None
        response.release()
        if response.has_excess:
            raise BrokenError

    def pause(self) -> None:
        """Stop receiving."""
        if not self._is_paused and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Receive again."""
        if self._is_paused:
            self._is_paused = False
            if not self.transport.is_closing():
                self.transport.resume_reading()

    def abort(self) -> None:
        """Close the connection at once. Bytes that were not sent yet are dropped."""
        self.transport.abort()


def is_readable(transport: asyncio.Transport) -> bool:
    """Return True if bytes, or the end of the connection, wait in the system."""
    number = transport.get_extra_info("socket").fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
