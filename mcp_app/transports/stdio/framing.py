"""Message framing in a byte stream: one message per line, or the older ``Content-Length`` headers."""

from __future__ import annotations

from typing import Final

from mcp_app.protocol.errors import ParseError, PayloadTooLarge
from mcp_app.protocol.messages.lines import escape_separators

_HEADER: Final = b"content-length:"
_MAX_HEADERS: Final = 4096


class Framing:
    """A parser of a client's messages, which also frames answers in the client's format (DLG-000-06).

    A line or body of more than ``limit`` bytes is skipped, and ``feed`` returns an error in its place.
    """

    def __init__(self, limit: int, *, counted: bool = True) -> None:
        """Create the framing. ``counted`` enables ``Content-Length`` headers."""
        self._limit = limit
        self._buffer = bytearray()
        self._headers: bool | None = None if counted else False
        self._skip = 0
        self._skip_line = False

    def feed(self, chunk: bytes) -> list[bytes | ParseError | PayloadTooLarge]:
        """Return the messages, or errors in their place, that ``chunk`` completed."""
        self._buffer += chunk
        found: list[bytes | ParseError | PayloadTooLarge] = []
        while (frame := self._next()) is not None:
            if frame != b"":
                found.append(frame)
        return found

    def encode(self, message: bytes) -> bytes:
        """Return a message as one line, also for clients that split at U+2028 (STDIO-01)."""
        if self._headers:
            return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)
        return escape_separators(message) + b"\n"

    def _next(self) -> bytes | ParseError | PayloadTooLarge | None:
        """Return the next frame, b"" for an empty frame, or None if more bytes are needed."""
        if self._headers is None and not self._decide():
            return None
        return self._next_counted() if self._headers else self._next_line()

    def _decide(self) -> bool:
        start = bytes(self._buffer.lstrip())[: len(_HEADER)].lower()
        if not start or (len(start) < len(_HEADER) and _HEADER.startswith(start)):
            return False
        self._headers = start == _HEADER
        return True

    def _next_line(self) -> bytes | PayloadTooLarge | None:
        line, end, rest = self._buffer.partition(b"\n")
        if not end:
            if len(self._buffer) > self._limit:
                self._skip_line = True
                self._buffer.clear()
            return None
        self._buffer = rest
        if self._skip_line or len(line) > self._limit:
            self._skip_line = False
            return self._too_large()
        return bytes(line.strip())

    def _next_counted(self) -> bytes | ParseError | PayloadTooLarge | None:
        if self._skip:
            passed = min(self._skip, len(self._buffer))
            del self._buffer[:passed]
            self._skip -= passed
            return self._too_large() if not self._skip else None
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            if len(self._buffer) > _MAX_HEADERS:
                self._buffer.clear()
                return ParseError("The headers of a message are too long.")
            return None
        size = _content_length(bytes(head))
        if size is None:
            self._buffer = rest
            return ParseError("A message needs the header 'Content-Length' with its size in bytes.")
        if size > self._limit:
            self._buffer, self._skip = rest, size
            return b""
        if len(rest) < size:
            return None
        self._buffer = rest[size:]
        return bytes(rest[:size])

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"A message may have at most {self._limit} bytes.")


def _content_length(head: bytes) -> int | None:
    for line in head.strip().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            return int(value)
    return None
