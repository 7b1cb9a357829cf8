"""The encoding of Server-Sent Events (HTML standard, section 9.2)."""

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
    """Return an event whose data is JSON text or a URI. ``retry`` is in milliseconds.

    JSON stays on a single data line for clients of every revision. Raise ValueError for an id or event name
    that contains control characters.
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
    """Return the first event of a resumable stream: an id without data (T-POLL-01)."""
    return encode_event(b"", id)


def encode_retry(milliseconds: int) -> bytes:
    """Return a ``retry`` field without an event.

    It sets the delay before the client reconnects (T-POLL-04).
    """
    return b"retry: %d\n\n" % milliseconds


def _line(text: str) -> bytes:
    if not text.isprintable():
        raise ValueError("An event's id and name must not hold control characters.")
    return text.encode()
