"""The WWW-Authenticate challenges of 401 and 403 responses (RFC 6750, RFC 9728), and the record of refusals.

Each response has one challenge, and every parameter value is quoted.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from django.contrib.auth import get_user_model

from mcp_app.auth.own_addresses import requested
from mcp_app.auth.principal import Principal
from mcp_app.database import queries
from mcp_app.metrics import tally
from mcp_app.models.audit import audit
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import Forbidden, Unauthorized
from mcp_app.protocol.messages import jsonrpc

# A client may repeat a refused request. Each process audits the same refusal at most once in this time.
NOTED_SECONDS: Final = 3_600.0
REMEMBERED: Final = 1_000

_noting = threading.Lock()
_noted: dict[tuple[str, str], float] = {}


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
    _note_refused(principal, scope)
    wanted = requested({scopes.MCP, scope, *(principal.scopes or ())})
    credential = "access token" if principal.api_key_id is None else "API key"
    words = f"The {credential} needs the scope {scope}."
    return Forbidden(
        words,
        challenge=worded("insufficient_scope", metadata=metadata, scope=wanted, description=words),
    )


def _note_refused(principal: Principal, scope: str) -> None:
    """Record that a credential lacks ``scope``. Does not block: the audit event is written later."""
    tally.note("oauth_scope_refused", scope)
    now, key = time.monotonic(), (principal.key, scope)
    with _noting:
        if now < _noted.get(key, 0.0):
            return
        if len(_noted) >= REMEMBERED:
            _noted.clear()
        _noted[key] = now + NOTED_SECONDS
    queries.later(_record, principal, scope)


def _record(principal: Principal, scope: str) -> None:
    users: Any = get_user_model()._default_manager
    known = principal.user_id is not None
    audit(
        actor=users.filter(pk=str(principal.user_id)).first() if known else None,
        action="oauth.scope_refused",
        object_kind="scope",
        object_key=scope,
        detail={"principal": principal.key, "held": sorted(principal.scopes or ())},
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
