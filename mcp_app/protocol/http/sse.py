"""Server-Sent Events as bytes for the wire; it knows nothing of what events mean.

Source: the HTML standard, section 9.2 (server-sent events).
"""

from __future__ import annotations

import re
from typing import Final

from mcp_app.protocol.messages.lines import escape_separators

KEEP_ALIVE: Final = b": ping\n\n"

_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


def encode_event(
    data: bytes,
    id: str | None = None,  # noqa: A002
    retry: int | None = None,
    event: str | None = None,
) -> bytes:
    """Return one event of JSON text, or of a URI; ``retry`` is in milliseconds.

    Clients of every age read JSON as one line of data. Raises ValueError for an id or name with a character
    that ends a line.
    """
    head = b"" if event is None else b"event: %b\n" % _line(event)
    if id is not None:
        head += b"id: %b\n" % _line(id)
    if retry is not None:
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head, escape_separators(data))


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
