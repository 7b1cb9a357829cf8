"""Server-Sent Events as bytes: encoded for the wire and parsed from it; it knows nothing of what events mean.

Source: the HTML standard, section 9.2 (server-sent events).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

KEEP_ALIVE: Final = b": ping\n\n"

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


def encode_event(
    data: bytes,
    id: str | None = None,  # noqa: A002
    retry: int | None = None,
    event: str | None = None,
) -> bytes:
    """One event; ``retry`` is in milliseconds. Raises ValueError for an id or name that breaks a line."""
    head = b"" if event is None else b"event: %b\n" % _line(event)
    if id is not None:
        head += b"id: %b\n" % _line(id)
    if retry is not None:
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def encode_priming(id: str) -> bytes:  # noqa: A002
    """The first event of a resumable stream: a position and no data (T-POLL-01)."""
    return encode_event(b"", id)


def encode_retry(milliseconds: int) -> bytes:
    """How long the client waits before it reconnects, without an event (T-POLL-04)."""
    return b"retry: %d\n\n" % milliseconds


def _line(text: str) -> bytes:
    if not text.isprintable():
        raise ValueError("An event's id and name must not hold control characters.")
    return text.encode()


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """A block of fields; a field that was not sent is None. ``retry`` is in milliseconds."""

    id: str | None = None
    event: str | None = None
    data: bytes | None = None
    retry: int | None = None


@dataclass(slots=True)
class _Block:
    id: str | None = None
    event: str | None = None
    data: list[bytes] = field(default_factory=list)
    retry: int | None = None

    def take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self.data.append(value)
        elif name == b"id" and b"\0" not in value:
            self.id = value.decode("utf-8", "replace")
        elif name == b"event":
            self.event = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 15:
            self.retry = int(value)

    def finish(self) -> ServerSentEvent | None:
        """The event, or None when the block held only comments."""
        data = b"\n".join(self.data) if self.data else None
        event = ServerSentEvent(self.id, self.event, data, self.retry)
        return None if event == _NOTHING else event


_NOTHING: Final = ServerSentEvent()


class Parser:
    """Feed it bytes as they come, cut anywhere; it gives back the events that are complete.

    Unlike a browser it also reports blocks without data, so that a client sees ``retry`` and priming events.
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        """``max_bytes`` bounds one event; this is what keeps an endless line from filling the memory."""
        self._max_bytes = max_bytes
        self._partial: list[bytes] = []
        self._size = 0
        self._block = _Block()
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that ``chunk`` completed. Raises ValueError when one is larger than allowed."""
        if self._after_cr and chunk:
            # The second half of a CR LF that was cut in two.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        lines = _LINE_END.split(chunk)
        rest = lines.pop()
        events = []
        for line in lines:
            event = self._take(self._complete(line))
            if event is not None:
                events.append(event)
        self._hold(rest)
        return events

    def _hold(self, rest: bytes) -> None:
        self._size += len(rest)
        if self._size > self._max_bytes:
            raise ValueError(f"An event is larger than {self._max_bytes} bytes.")
        if rest:
            self._partial.append(rest)

    def _complete(self, line: bytes) -> bytes:
        self._hold(line)
        whole = b"".join(self._partial)
        self._partial.clear()
        if not self._started:
            self._started = True
            whole = whole.removeprefix(_BOM)
        return whole

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if line:
            self._block.take(line)
            return None
        block, self._block = self._block, _Block()
        self._size = 0
        return block.finish()
