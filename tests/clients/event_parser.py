"""A parser of Server-Sent Events for test clients, independent of the server's writer.

Source: the HTML standard, section 9.2 (server-sent events).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. A field that was not sent is None; ``retry`` is in milliseconds."""

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
        """Return the event, or None if the block contained only comments."""
        data = b"\n".join(self.data) if self.data else None
        event = ServerSentEvent(self.id, self.event, data, self.retry)
        return None if event == _NOTHING else event


_NOTHING: Final = ServerSentEvent()


class Parser:
    """An incremental parser: feed it chunks of any size and it returns complete events.

    Unlike a browser it also reports blocks without data, so that a client sees ``retry`` and priming
    events.
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024, *, older: bool = True) -> None:
        """Limit one event to ``max_bytes``, so that an endless line cannot exhaust memory.

        ``older``: reject lines that older clients split in two because they split as ``str.splitlines``
        does.
        """
        self._max_bytes = max_bytes
        self._older = older
        self._partial: list[bytes] = []
        self._size = 0
        self._block = _Block()
        self._after_cr = False
        self._started = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Return the events that ``chunk`` completed. Raise ValueError for a malformed event."""
        if self._after_cr and chunk:
            # The second half of a CR LF split across two chunks.
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
        if self._older and len(whole.decode("utf-8", "replace").splitlines()) > 1:
            raise ValueError(f"Older clients cut this line in two: {whole[:200]!r}")
        return whole

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if line:
            self._block.take(line)
            return None
        block, self._block = self._block, _Block()
        self._size = 0
        return block.finish()
