"""The values of the routing headers of 2026-07-28: their base64 form, blanks and forbidden bytes."""

from __future__ import annotations

import base64
import binascii
from typing import Final

_BEGIN: Final = b"=?base64?"
_END: Final = b"?="
_BLANKS: Final = b" \t"
# HTTP servers pass header bytes on unchanged. The meaning of bytes beyond ASCII is undefined (HDR-14).
_PRINTABLE: Final = bytes(range(0x20, 0x7F)) + b"\t"
_SHOWN: Final = 64


def is_plain(value: bytes) -> bool:
    """Return True if a header value contains only printable ASCII characters."""
    return not value.translate(None, _PRINTABLE)


def shown(value: object) -> str:
    """Return a value as text for an error or a log: shortened and without line breaks (HDR-13)."""
    text = value if isinstance(value, str) else str(value)
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def decode(value: bytes) -> str | None:
    """Return the text of a header value, or None if it is invalid (HDR-07, HDR-14, B64-01 to B64-03)."""
    value = value.strip(_BLANKS)
    if not is_plain(value):
        return None
    if not (value.startswith(_BEGIN) and value.endswith(_END)) or len(value) < len(_BEGIN) + len(_END):
        return value.decode("ascii")
    encoded = value[len(_BEGIN) : -len(_END)]
    try:
        decoded = base64.b64decode(encoded, validate=True)
        # The last base64 character has unused bits. If they were ignored, a value would have several
        # spellings.
        return decoded.decode() if base64.b64encode(decoded) == encoded else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode(text: str) -> bytes:
    """Return a text as a header value. If its plain form would be ambiguous, encode it as base64 (B64-04)."""
    if text.isascii() and text.isprintable() and text == text.strip(" "):
        plain = text.encode()
        if not (plain.startswith(_BEGIN) and plain.endswith(_END)):
            return plain
    return _BEGIN + base64.b64encode(text.encode()) + _END
