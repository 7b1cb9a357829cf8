"""A small HTTP/1.1 server for the processes of this installation, on a unix socket.

Requests have a length and come one after the other. A request is cancelled when its connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_HEAD_BYTES: Final = 64 * 1024
IDLE_SECONDS: Final = 60.0
BODY_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 10.0
_JSON: Final = "application/json"
_EVENTS: Final = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))

log = logging.getLogger("mcp.upstream.bridge")


class BadRequest(Exception):
    """Raised for bytes that are not a request. The connection is closed."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. Names of ``headers`` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer:
    """The answer to a request: one body, or a stream of events."""

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        self.is_started = self.is_complete = False

    async def send(self, status: int, body: bytes = b"", headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Send the whole answer."""
        length = (("Content-Type", _JSON), ("Content-Length", str(len(body))))
        await self._write(_head(status, (*length, *headers)) + body)
        self.is_complete = True

    async def event(self, message: bytes) -> None:
        """Send an event. The first one begins the answer."""
        await self._chunk(b"data: %b\n\n" % message)

    async def comment(self) -> None:
        """Send a comment, which shows that the connection is open."""
        await self._chunk(b":\n\n")

    async def end(self) -> None:
        """End the stream of events."""
        await self._write(b"0\r\n\r\n")
        self.is_complete = True

    async def _chunk(self, data: bytes) -> None:
        chunk = b"%x\r\n%b\r\n" % (len(data), data)
        if not self.is_started:
            chunk = _head(200, _EVENTS) + chunk
        await self._write(chunk)

    async def _write(self, data: bytes) -> None:
        self.is_started = True
        self._writer.write(data)
        async with asyncio.timeout(WRITE_SECONDS):
            await self._writer.drain()


Handle = Callable[[Request, Answer], Awaitable[None]]
# Returns True if the headers of a request permit it.
Admit = Callable[[dict[str, str]], bool]


async def serve_connection(admit: Admit, handle: Handle, reader: StreamReader, writer: StreamWriter) -> None:
    """Answer the requests of a connection until it is closed."""
    try:
        await _serve(admit, handle, reader, writer)
    except (BadRequest, TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        # An answer that is not complete is broken off, so the caller does not mistake it for a whole one.
        writer.transport.abort()


async def _serve(admit: Admit, handle: Handle, reader: StreamReader, writer: StreamWriter) -> None:
    loop, before = asyncio.get_running_loop(), b""
    while True:
        request = await _read(admit, reader, writer, before)
        answer = Answer(writer)
        work = loop.create_task(_handled(handle, request, answer))
        # Reading ends if the caller closes the connection. It may also return the first byte of the next
        # request, which the caller sends after the answer.
        watch = loop.create_task(reader.read(1))
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and watch.result():
                raise BadRequest
        finally:
            for task in (work, watch):
                task.cancel()
            await asyncio.wait((work, watch))
        error = None if work.cancelled() else work.exception()
        if error is not None:
            log.error("A request to the bridge failed", exc_info=error)
        if work.cancelled() or error is not None or not answer.is_complete:
            return
        before = b"" if watch.cancelled() else watch.result()
        if not watch.cancelled() and not before:
            return


async def _handled(handle: Handle, request: Request, answer: Answer) -> None:
    # The caller is gone, or it reads too slowly.
    with suppress(TimeoutError, OSError):
        await handle(request, answer)


async def _read(admit: Admit, reader: StreamReader, writer: StreamWriter, before: bytes) -> Request:
    async with asyncio.timeout(IDLE_SECONDS):
        head = before + await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or name.lower() in headers:
            raise BadRequest
        headers[name.lower()] = value.strip()
    parts = first.split(" ")
    length = headers.get("content-length", "0")
    is_valid = len(parts) == 3 and parts[2] == "HTTP/1.1" and length.isascii() and length.isdigit()
    if not is_valid or "transfer-encoding" in headers or int(length) > MAX_BODY_BYTES:
        raise BadRequest
    if not admit(headers):
        await Answer(writer).send(401)
        raise BadRequest
    async with asyncio.timeout(BODY_SECONDS):
        body = await reader.readexactly(int(length))
    return Request(parts[0], parts[1], headers, body)


def _head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}\r\n".encode("latin-1")
