"""Routing headers in a legacy session, as an interim transport defined them (HDR-12, DLG-002-01).

The published legacy revisions do not require such headers. Wrong headers are refused, because a proxy has
routed by them. The modern era has its own rules and codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.protocol.errors import Refused
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.http.header_values import decode
from mcp_app.protocol.messages.jsonrpc import Notification, Request

METHOD: Final = b"mcp-method"
NAME: Final = b"mcp-name"
# The member of the params that the header Mcp-Name repeats.
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# The code of that transport. The published legacy revisions give the number no meaning (DLG-002-02).
MISMATCH: Final = -32001
SHOWN: Final = 64


def check(fields: Mapping[bytes, bytes], message: Request | Notification, *, strict: bool) -> None:
    """Raise Refused if a header contradicts the body or, if ``strict``, is missing."""
    problem = _problem(METHOD, fields, message.method, strict=strict)
    member = NAMED_BY.get(message.method)
    named = message.params.get(member) if member else None
    # Skip names that are not strings: the handler rejects them.
    if problem is None and type(named) is str:
        problem = _problem(NAME, fields, named, strict=strict)
    if problem is not None:
        raise _refused(problem, message)


def check_params(
    fields: Mapping[bytes, bytes], message: Request, schema: Mapping[str, Any], *, strict: bool
) -> None:
    """Raise Refused if an ``Mcp-Param-*`` header differs from its annotated argument."""
    try:
        headers = param_headers.read(schema)
    except ValueError:
        return  # Ignored here: the tool's author gets the error at registration.
    if not strict:
        headers = tuple(header for header in headers if header.field in fields)
    arguments = message.params.get("arguments")
    problem = param_headers.mismatch(headers, fields, arguments if type(arguments) is dict else {})
    if problem is not None:
        raise _refused(problem, message)


def _problem(header: bytes, fields: Mapping[bytes, bytes], expected: str, *, strict: bool) -> str | None:
    sent = fields.get(header)
    name = "Mcp-Method" if header == METHOD else "Mcp-Name"
    if sent is None:
        return f"The header {name} is missing; it has to be {_shown(expected)}." if strict else None
    text = decode(sent)
    if text is None:
        return f"The header {name} holds what no header value may hold."
    if text == expected:
        return None
    return f"The header {name} is {_shown(text)}, but the body says {_shown(expected)}."


def _refused(problem: str, message: Request | Notification) -> Refused:
    request_id = message.id if isinstance(message, Request) else None
    return Refused(problem, code=MISMATCH, http_status=400, request_id=request_id)


def _shown(text: str) -> str:
    """Return a value for an error: shortened, without line breaks."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "…")
