"""JSON text on one line for every client, including clients that split lines at Unicode line separators."""

from __future__ import annotations

from typing import Final

# JSON does not escape these characters inside strings. Python's `str.splitlines`, which httpx-sse used
# before 0.4.2 for event streams, ends a line at all of them. Node's `readline`, used for stdio, ends a line
# at the last two. `splitlines` also ends a line at U+000B, U+000C and U+001C to U+001E, but JSON always
# escapes these.
_SEPARATORS: Final = tuple((mark.encode(), b"\\u%04x" % ord(mark)) for mark in "\x85\u2028\u2029")


def escape_separators(message: bytes) -> bytes:
    """Return the JSON text ``message`` with Unicode line separators replaced by JSON escapes."""
    if not message.isascii():
        for separator, escaped in _SEPARATORS:
            message = message.replace(separator, escaped)
    return message
