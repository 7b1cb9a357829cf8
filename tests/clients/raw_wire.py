"""HTTP/1.1 on a bare socket for tests, with strict parsing of responses. Independent of SSE and MCP."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any, NamedTuple

from tests.bounds import PATIENCE

READ_BYTES = 65_536
HEAD_BYTES = 256 * 1024


class NotHttp(Exception):
    """The bytes received are not a well-formed HTTP/1.1 response."""


class Answer(NamedTuple):
    """One complete response; header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection: a socket, a buffer of unread bytes, and a deadline for every read.

    Each reading method returns a complete item or, if the deadline (monotonic seconds) passes, raises
    TimeoutError and consumes nothing: the caller may wait again.
    """

    def __init__(self, host: str, port: int, patience: float = PATIENCE) -> None:
        self.patience = patience
        self.socket = socket.create_connection((host, port), timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.settimeout(self.patience)
        self.socket.sendall(data)

    def fill(self, deadline: float | None = None) -> bool:
        """Read once into the buffer. Return False at the end of the connection."""
        remaining = self.patience if deadline is None else deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("no answer before the deadline")
        self.socket.settimeout(remaining)
        piece = self.socket.recv(READ_BYTES)
        self.buffer += piece
        return bool(piece)

    def take(self, size: int) -> bytes:
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def more(self, deadline: float | None = None) -> bytes:
        """Return the next bytes, b"" at the end."""
        if not self.buffer:
            self.fill(deadline)
        return self.take(len(self.buffer))

    def find(self, mark: bytes, deadline: float | None = None) -> int:
        """Read until ``mark`` is buffered and return the number of bytes up to its end. Consume nothing."""
        while (at := self.buffer.find(mark)) < 0:
            if len(self.buffer) > HEAD_BYTES:
                raise NotHttp(f"no {mark!r} within {HEAD_BYTES} bytes")
            if not self.fill(deadline):
                raise NotHttp(f"the connection ended inside a message: {self.buffer[-200:]!r}")
        return at + len(mark)

    def need(self, size: int, deadline: float | None = None) -> None:
        """Read until the buffer holds ``size`` bytes. Consume nothing."""
        while len(self.buffer) < size:
            if not self.fill(deadline):
                raise NotHttp(f"the connection ended {size - len(self.buffer)} bytes early")

    def exactly(self, size: int, deadline: float | None = None) -> bytes:
        self.need(size, deadline)
        return self.take(size)

    def chunk(self, deadline: float | None = None) -> bytes:
        """Return the next chunk of a chunked body, b"" for the last one."""
        line = self.find(b"\r\n", deadline)
        try:
            size = int(self.buffer[: line - 2].split(b";")[0], 16)
        except ValueError:
            raise NotHttp(f"not a chunk size: {self.buffer[:line]!r}") from None
        self.need(line + size + 2, deadline)
        framed = self.take(line + size + 2)
        if not framed.endswith(b"\r\n"):
            raise NotHttp("a chunk does not end with CRLF")
        return framed[line:-2]

    def cut(self) -> None:
        """Reset the connection, as a failing network does."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()


def parse_head(data: bytes) -> tuple[int, dict[str, str]]:
    """Parse status and headers from the bytes up to and including the empty line. Raise NotHttp."""
    lines = data[:-4].decode("latin-1").split("\r\n")
    version, _, rest = lines[0].partition(" ")
    status = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not status.isdigit():
        raise NotHttp(f"not a status line: {lines[0]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in value or "\0" in value:
            raise NotHttp(f"not a header line: {line!r}")
        known = headers.get(name.lower())
        headers[name.lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
    return int(status), headers


def read_head(wire: Wire, deadline: float | None) -> tuple[int, dict[str, str]]:
    """Read status and headers of the next response. Raise NotHttp or TimeoutError."""
    return parse_head(wire.take(wire.find(b"\r\n\r\n", deadline)))


def is_chunked(headers: dict[str, str]) -> bool:
    return headers.get("transfer-encoding", "").lower() == "chunked"


def read_body(wire: Wire, method: str, status: int, headers: dict[str, str], deadline: float | None) -> bytes:
    """Read the complete body of a response after its head. Raise NotHttp or TimeoutError."""
    if method == "HEAD" or status in (204, 304):
        return b""
    if is_chunked(headers):
        pieces = iter(lambda: wire.chunk(deadline), b"")
    elif "content-length" in headers:
        return wire.exactly(int(headers["content-length"]), deadline)
    else:
        pieces = iter(lambda: wire.more(deadline), b"")
    return b"".join(pieces)


def request_bytes(method: str, path: str, host: str, headers: dict[str, str], body: bytes | None) -> bytes:
    """Return the bytes of one HTTP/1.1 request. Add Host and Content-Length unless given."""
    lines = [f"{method} {path} HTTP/1.1"]
    given = {name.lower() for name in headers}
    if "host" not in given:
        lines.append(f"Host: {host}")
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
