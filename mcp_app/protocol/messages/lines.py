"""JSON text that stays on one line for every client, even one that splits at Unicode line separators."""

from __future__ import annotations

from typing import Final

# JSON leaves these bare inside strings. `str.splitlines` of Python (event streams in httpx-sse before 0.4.2)
# ends a line at all of them, `readline` of Node (stdio) at the last two. U+000B, U+000C and U+001C to U+001E,
# where `splitlines` ends a line as well, are always escaped in JSON.
_SEPARATORS: Final = tuple((mark.encode(), b"\\u%04x" % ord(mark)) for mark in "\x85\u2028\u2029")


def escape_separators(message: bytes) -> bytes:
    """Return the JSON text ``message`` with its Unicode line separators written as JSON escapes."""
    if not message.isascii():
        for separator, escaped in _SEPARATORS:
            message = message.replace(separator, escaped)
    return message
