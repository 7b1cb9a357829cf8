"""Routing headers in a legacy session, as defined by an interim transport (HDR-12, DLG-002-01).

The published legacy revisions do not require these headers. But if they are sent, they must be correct,
because a proxy has routed the request by them. The modern era has its own rules and error codes.
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
# The member of the params whose value is repeated in the header Mcp-Name.
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# The error code of that transport. In the published legacy revisions it has no meaning (DLG-002-02).
MISMATCH: Final = -32001
SHOWN: Final = 64


def check(fields: Mapping[bytes, bytes], message: Request | Notification, *, strict: bool) -> None:
    """Raise Refused if a header contradicts the body, or if it is missing and the check is ``strict``."""
    problem = _problem(METHOD, fields, message.method, strict=strict)
    member = NAMED_BY.get(message.method)
    named = message.params.get(member) if member else None
    # Do not compare a name that is not a string, because the handler will reject it.
    if problem is None and type(named) is str:
        problem = _problem(NAME, fields, named, strict=strict)
    if problem is not None:
        raise _refused(problem, message)


def check_params(
    fields: Mapping[bytes, bytes], message: Request, schema: Mapping[str, Any], *, strict: bool
) -> None:
    """Raise Refused if an ``Mcp-Param-*`` header differs from the argument that it should repeat."""
    try:
        headers = param_headers.read(schema)
    except ValueError:
        return  # The author of the tool gets this error when the tool is registered.
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
    """Return a value as text for an error: shortened and without line breaks."""
    return ascii(text if len(text) <= SHOWN else text[:SHOWN] + "…")
