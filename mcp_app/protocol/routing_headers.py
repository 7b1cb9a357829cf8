"""Compares the routing headers of 2026-07-28 with the body they came with; the body decides (HDR-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .envelope import VERSION_HEADER
from .errors import HeaderMismatch
from .header_values import decode

METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
# Which member of the params the header Mcp-Name repeats (HDR-03, HDR-04).
NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
SHOWN: Final = 64


def check(fields: Mapping[bytes, bytes], version: str, method: str, params: Mapping[str, Any]) -> None:
    """Raises HeaderMismatch when a header is missing or says something else than the body (HDR-01 to 10)."""
    _compare("MCP-Protocol-Version", fields.get(VERSION_HEADER), version)
    _compare("Mcp-Method", fields.get(METHOD), method)
    member = NAMED_BY.get(method)
    if member is not None:
        named = params.get(member)
        # Of the wrong type it equals no header; the params are refused for what they are further on.
        if type(named) is str:
            _compare("Mcp-Name", fields.get(NAME), named)
        elif NAME not in fields:
            raise HeaderMismatch("The header Mcp-Name is missing.")


def _compare(header: str, sent: bytes | None, expected: str) -> None:
    if sent is None:
        raise HeaderMismatch(f"The header {header} is missing; it has to be {_shown(expected)}.")
    text = decode(sent)
    if text is None:
        raise HeaderMismatch(f"The header {header} holds what no header value may hold.")
    if text != expected:
        raise HeaderMismatch(f"The header {header} is {_shown(text)}, but the body says {_shown(expected)}.")


def _shown(text: str) -> str:
    """A value in an error or a log: short, and without a line break of its own (HDR-13)."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "…")
