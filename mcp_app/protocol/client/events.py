"""The decoding of Server-Sent Events (HTML standard, section 9.2.6), within a limit for each event."""

from __future__ import annotations

import re
from typing import Final

from mcp_app.protocol.client.faults import Kind, UpstreamFault

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class EventDecoder:
    """An incremental decoder. It returns the data of events and ignores their names, ids and comments."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # The pieces of the line that is still arriving, and the data lines of the event before it.
        self._partial: list[bytes] = []
        self._data: list[bytes] = []
        self._size = self._pending = 0
        self._starts = True
        self._after_return = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of each event that the chunk completes. Raise UpstreamFault above the limit."""
        if self._after_return and chunk:
            # The second half of a line end that was split over two chunks.
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if not chunk:
            return []
        self._after_return = chunk.endswith(b"\r")
        *whole, rest = _LINE_END.split(chunk)
        found: list[bytes] = []
        for piece in whole:
            line = b"".join((*self._partial, piece))
            self._partial, self._pending = [], 0
            if (data := self._line(line)) is not None:
                found.append(data)
        if rest:
            self._partial.append(rest)
            self._pending += len(rest)
            self._check()
        return found

    def _line(self, line: bytes) -> bytes | None:
        if self._starts:
            line, self._starts = line.removeprefix(_BOM), False
        if not line:
            data, self._data, self._size = b"\n".join(self._data), [], 0
            return data or None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._size += len(value) + 1
            self._check()
        return None

    def _check(self) -> None:
        if self._size + self._pending > self._max_bytes:
            raise UpstreamFault(
                Kind.TOO_LARGE, f"sent a message larger than the {self._max_bytes // 1024} KiB that are read."
            )
