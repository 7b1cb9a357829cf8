"""The WWW-Authenticate challenges of 401 and 403 responses (RFC 6750, RFC 9728).

Each response has one challenge, and every parameter value is quoted.
"""

from __future__ import annotations

from mcp_app.auth.own_addresses import requested
from mcp_app.auth.principal import Principal
from mcp_app.auth.refusal_audit import note_refused
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import Forbidden, Unauthorized
from mcp_app.protocol.messages import jsonrpc


def worded(
    error: str = "", *, realm: str = "mcp", metadata: str = "", scope: str = "", description: str = ""
) -> str:
    """Build the value of WWW-Authenticate. Empty parameters are omitted."""
    parts = {
        "realm": realm,
        "error": error,
        "error_description": description,
        "resource_metadata": metadata,
        "scope": scope,
    }
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)


def unauthorized(message: str, error: str = "", metadata: str = "") -> Unauthorized:
    """Build a 401 error.

    With ``metadata``, the challenge contains the metadata's address and the scopes to request (AUTH-03,
    AUTH-04).
    """
    scope = requested(scopes.BASIC) if metadata else ""
    return Unauthorized(message, challenge=worded(error, metadata=metadata, scope=scope))


def insufficient(principal: Principal, scope: str, metadata: str = "") -> Forbidden:
    """Build a 403 error for a credential that lacks ``scope``, and record the refusal.

    The challenge lists all scopes that the client should request (AUTH-10).
    """
    note_refused(principal, scope)
    wanted = requested({scopes.MCP, scope, *(principal.scopes or ())})
    credential = "access token" if principal.api_key_id is None else "API key"
    words = f"The {credential} needs the scope {scope}."
    return Forbidden(
        words,
        challenge=worded("insufficient_scope", metadata=metadata, scope=wanted, description=words),
    )


def missing_scope(principal: Principal, request: jsonrpc.Request) -> str:
    """Return the scope that a request needs and its credential lacks, or "" if none is missing."""
    if principal.scopes is None:
        return ""
    scope = scopes.needed(request.method, request.params)
    return "" if scope in principal.scopes else scope


def check_scopes(
    principal: Principal,
    message: jsonrpc.Message | list[jsonrpc.Message | jsonrpc.Invalid],
    metadata: str = "",
) -> None:
    """Raise Forbidden if the principal's scopes do not cover a message. Runs before processing (AUTH-12)."""
    for each in message if isinstance(message, list) else (message,):
        if not isinstance(each, jsonrpc.Request):
            continue
        if scope := missing_scope(principal, each):
            refused = insufficient(principal, scope, metadata)
            refused.request_id = None if isinstance(message, list) else each.id
            raise refused
