"""Comparison of the routing headers of 2026-07-28 with the body, which takes precedence (HDR-11).

Version and method must be sent verbatim. Only names may be encoded (HDR-02, HDR-09).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from mcp_app.protocol.errors import HeaderMismatch
from mcp_app.protocol.http.header_values import decode, encode, is_plain, shown
from mcp_app.protocol.messages.envelope import VERSION, VERSION_HEADER

METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
# The member of the params whose value is repeated in the header Mcp-Name (HDR-03, HDR-04).
NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
MEMO_CHARACTERS: Final = 256
_NEVER_SENT: Final = b"\n"
_WRITTEN: Final = {VERSION_HEADER: "MCP-Protocol-Version", METHOD: "Mcp-Method", NAME: "Mcp-Name"}


def agree(fields: Mapping[bytes, bytes], method: str, params: Mapping[str, Any]) -> bool:
    """Return True if the headers are equal to the body. No further check is needed then.

    This is the fast path for most requests: one comparison per header.
    """
    meta, member = params.get("_meta"), NAMED_BY.get(method)
    if type(meta) is not dict or fields.get(METHOD) != _plain(method):
        return False
    if fields.get(VERSION_HEADER) != _plain(meta.get(VERSION)):
        return False
    return NAME not in fields if member is None else fields.get(NAME) == _plain(params.get(member))


def check_values(fields: Mapping[bytes, bytes]) -> None:
    """Raise HeaderMismatch if a header was sent twice or has forbidden bytes (HDR-08, HDR-10, HDR-14)."""
    for header, written in _WRITTEN.items():
        sent = fields.get(header)
        if sent is not None and not is_plain(sent):
            raise HeaderMismatch(f"The header {written} was sent twice, or holds what no header value may.")


def check(fields: Mapping[bytes, bytes], version: str, method: str, params: Mapping[str, Any]) -> None:
    """Raise HeaderMismatch if a header is missing or contradicts the body (HDR-01 to 10)."""
    _compare("MCP-Protocol-Version", _text(fields, VERSION_HEADER), version)
    _compare("Mcp-Method", _text(fields, METHOD), method)
    member = NAMED_BY.get(method)
    if member is not None:
        named = params.get(member)
        # Do not compare a name of the wrong type, because the handler will reject the params.
        if type(named) is str:
            _compare("Mcp-Name", _decoded(fields), named)
        elif NAME not in fields:
            raise HeaderMismatch("The header Mcp-Name is missing.")


def _plain(text: object) -> bytes:
    """Return a text as a header value. Return bytes that no header contains if that is not possible."""
    return _bytes_of(text) if type(text) is str and len(text) <= MEMO_CHARACTERS else _NEVER_SENT


@lru_cache(maxsize=1_000)
def _bytes_of(text: str) -> bytes:
    sent = encode(text) if text.isascii() else _NEVER_SENT
    return sent if sent.decode() == text else _NEVER_SENT


def _text(fields: Mapping[bytes, bytes], header: bytes) -> str | None:
    sent = fields.get(header)
    return None if sent is None else sent.strip(b" \t").decode("latin-1")


def _decoded(fields: Mapping[bytes, bytes]) -> str | None:
    sent = fields.get(NAME)
    if sent is None:
        return None
    text = decode(sent)
    if text is None:
        raise HeaderMismatch("The header Mcp-Name is not validly encoded.")
    return text


def _compare(header: str, text: str | None, expected: str) -> None:
    if text == expected:
        return
    if text is None:
        raise HeaderMismatch(f"The header {header} is missing; it has to be {shown(expected)}.")
    raise HeaderMismatch(f"The header {header} is {shown(text)}, but the body says {shown(expected)}.")
