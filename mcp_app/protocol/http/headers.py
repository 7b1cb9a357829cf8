"""HTTP header fields: collecting them and checking them. The results of the checks are cached by value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mcp_app.protocol.errors import HeadersTooLarge, Refused

MAX_FIELDS: Final = 100
MAX_BYTES: Final = 16 * 1024

# If these fields were sent twice, a proxy and this server might use different values (S8). So refuse them.
_SINGULAR: Final = frozenset(
    (
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"last-event-id",
        b"mcp-session-id",
        b"origin",
    )
)
# Joins the two values of a routing header that was sent twice. The header must be refused with an error
# code of the message's era, which is not known yet (HDR-08). No valid header contains this byte, so the
# later comparison with the body fails.
_TWICE: Final = b"\xff, "
_ZERO: Final = re.compile(rb"0(\.0{0,3})?")
# A tab is white space inside a value (RFC 9110 section 5.5).
_CONTROLS: Final = bytes(code for code in range(32) if code != 9) + b"\x7f"


def collect(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return header fields by lower-case name. Raise Refused (400) or HeadersTooLarge (431).

    Fields that were sent several times are joined by commas (RFC 9110 section 5.3).
    """
    fields = list(headers)
    found = dict(fields)
    names = b"\n".join(found)
    if len(found) != len(fields) or names != names.lower():
        found = _merge(fields)
    values = b"".join(found.values())
    if len(fields) > MAX_FIELDS or len(values) + len(names) > MAX_BYTES:
        raise HeadersTooLarge(f"More than {MAX_FIELDS} header fields or {MAX_BYTES} bytes of them.")
    if len(values.translate(None, _CONTROLS)) != len(values):
        raise Refused("A header value holds control characters.")
    return found


def _merge(fields: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for given, value in fields:
        name = given.lower()
        if name not in found:
            found[name] = value
        elif name in _SINGULAR:
            raise Refused(f"The header {name.decode('ascii', 'replace')!r} was sent more than once.")
        else:
            found[name] += (_TWICE if name.startswith(b"mcp-") else b", ") + value
    return found


@lru_cache(maxsize=256)
def accepts_both(accept: bytes | None) -> bool:
    """Return True if Accept is missing or allows both formats of an answer to POST (T-POST-02)."""
    return _accepts(accept, b"application/json") and _accepts(accept, b"text/event-stream")


@lru_cache(maxsize=256)
def accepts_json(accept: bytes | None) -> bool:
    """Return True if Accept is missing or allows a JSON body."""
    return _accepts(accept, b"application/json")


@lru_cache(maxsize=256)
def accepts_sse(accept: bytes | None) -> bool:
    """Return True if Accept is missing or allows an event stream (T-GET-01)."""
    return _accepts(accept, b"text/event-stream")


@lru_cache(maxsize=256)
def is_json(content_type: bytes | None) -> bool:
    """Return True if the Content-Type is JSON, with any parameters (T-POST-03)."""
    return content_type is not None and _media_type(content_type) == b"application/json"


def is_identity(content_encoding: bytes | None) -> bool:
    """Return True if the body is not compressed.

    The server never decompresses, because of zip bombs (S10).
    """
    return content_encoding is None or content_encoding.strip(b" \t").lower() in (b"", b"identity")


def _media_type(value: bytes) -> bytes:
    return value.partition(b";")[0].strip(b" \t").lower()


def _accepts(accept: bytes | None, wanted: bytes) -> bool:
    """Apply RFC 9110 section 12.5.1: the most specific matching range decides, and ``q=0`` refuses."""
    if accept is None:
        return True
    ranges = {_media_type(part): not _is_refused(part) for part in accept.split(b",")}
    for candidate in (wanted, wanted.partition(b"/")[0] + b"/*", b"*/*"):
        if candidate in ranges:
            return ranges[candidate]
    return False


def _is_refused(part: bytes) -> bool:
    """Return True if a media range has a quality of zero."""
    for parameter in part.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        if name.strip(b" \t").lower() == b"q":
            return _ZERO.fullmatch(value.strip(b" \t")) is not None
    return False
