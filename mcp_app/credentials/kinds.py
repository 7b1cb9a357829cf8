"""The kinds of credentials: the parts of each secret, and their place in a request."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final

from mcp_app.egress import Secrets
from mcp_app.models import Credential

Kind = Credential.Kind
Secret = Mapping[str, Any]

# The parts of each kind's secret. Parts of ``OPTIONAL`` may be empty.
PARTS: Final[dict[str, tuple[str, ...]]] = {
    Kind.BEARER: ("token",),
    Kind.BASIC: ("username", "password"),
    Kind.API_KEY: ("value",),
    Kind.HEADERS: ("headers",),
    Kind.CLIENT_CREDENTIALS: ("client_id", "client_secret"),
    Kind.OAUTH_CLIENT: ("client_id", "client_secret"),
    Kind.TOKEN_EXCHANGE: ("client_id", "client_secret"),
}
OPTIONAL: Final = frozenset({(Kind.BASIC, "password"), (Kind.OAUTH_CLIENT, "client_secret")})
PLACES: Final = ("header", "query", "cookie")
MAX_PART: Final = 16_384
MAX_HEADERS: Final = 10
HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VISIBLE: Final = re.compile(r"[\t\x20-\x7e]*")
_COOKIE_VALUE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")
# Headers of the connection, and headers that could make a request seem to come from elsewhere.
NEVER: Final = re.compile(
    r"host|connection|content-length|transfer-encoding|te|trailer|upgrade|expect|keep-alive|accept-encoding"
    r"|proxy-.*|forwarded|x-forwarded-.*|mcp-.*",
    re.IGNORECASE,
)


def objection_to_header(name: Any, value: Any) -> str:
    """Return the reason why a header cannot be sent, or ""."""
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        return "A header name has letters, digits and - only."
    if NEVER.fullmatch(name):
        return f"The header {name} cannot be set."
    if not isinstance(value, str) or not _VISIBLE.fullmatch(value) or value != value.strip():
        return f"The value of {name} has a character that a header cannot hold."
    return ""


def objection_to(kind: str, secret: Any, placement: Mapping[str, Any]) -> str:
    """Return the reason why a secret of this kind cannot be stored, or ""."""
    parts = PARTS[kind]
    if not isinstance(secret, Mapping) or set(secret) != set(parts):
        return f"A secret of this kind has the members {', '.join(parts)}."
    if kind == Kind.HEADERS:
        return _objection_to_headers(secret["headers"])
    for part in parts:
        value = secret[part]
        if not isinstance(value, str) or len(value) > MAX_PART:
            return f"{part} must be text of at most {MAX_PART} characters."
        if not value and (kind, part) not in OPTIONAL:
            return f"{part} must not be empty."
        if value != value.strip():
            return f"{part} begins or ends with a space or line break."
    return _objection_to_text(kind, secret, placement)


def _objection_to_text(kind: str, secret: Secret, placement: Mapping[str, Any]) -> str:
    if kind == Kind.BEARER and not re.fullmatch(r"[\x21-\x7e]+", secret["token"]):
        return "token has a character that a header cannot hold."
    if kind == Kind.BASIC and ":" in secret["username"]:
        return "username must not contain a colon."
    if kind == Kind.API_KEY and placement.get("in", "header") != "query":
        allowed = _COOKIE_VALUE if placement.get("in") == "cookie" else _VISIBLE
        if not allowed.fullmatch(secret["value"]):
            return "value has a character that its place cannot hold."
    return ""


def _objection_to_headers(headers: Any) -> str:
    if not isinstance(headers, Mapping) or not headers or len(headers) > MAX_HEADERS:
        return f"headers must be an object of 1 to {MAX_HEADERS} names and values."
    return next(filter(None, (objection_to_header(name, value) for name, value in headers.items())), "")


def objection_to_placement(kind: str, placement: Any) -> str:
    """Return the reason why a placement does not fit the kind, or ""."""
    if kind != Kind.API_KEY:
        return "" if placement in ({}, None) else "Only an API key has a placement."
    if not isinstance(placement, Mapping) or set(placement) - {"in", "name", "prefix"}:
        return 'The placement is an object such as {"in": "header", "name": "X-API-Key", "prefix": ""}.'
    if placement.get("in", "header") not in PLACES:
        return f"An API key is sent in one of: {', '.join(PLACES)}."
    name, prefix = placement.get("name", ""), placement.get("prefix", "")
    if not isinstance(prefix, str) or not re.fullmatch(r"[\x20-\x7e]{0,50}", prefix):
        return "The prefix is text of at most 50 characters, such as Token."
    if placement.get("in", "header") == "query":
        return "" if isinstance(name, str) and 0 < len(name) <= 100 else "Name the query parameter."
    return objection_to_header(name, "")


def placed(kind: str, secret: Secret, placement: Mapping[str, Any], key: str) -> Secrets:
    """Return the secret parts of a request for a stored secret."""
    if kind == Kind.HEADERS:
        return Secrets(headers=tuple(secret["headers"].items()), key=key)
    if kind == Kind.BASIC:
        return Secrets(headers=(("Authorization", basic(secret["username"], secret["password"])),), key=key)
    if kind == Kind.BEARER:
        return Secrets(headers=(("Authorization", f"Bearer {secret['token']}"),), key=key)
    pair = ((placement["name"], placement.get("prefix", "") + secret["value"]),)
    where = placement.get("in", "header")
    if where == "query":
        return Secrets(query=pair, key=key)
    return Secrets(cookies=pair, key=key) if where == "cookie" else Secrets(headers=pair, key=key)


def basic(username: str, password: str) -> str:
    """Return the value of an Authorization header (RFC 7617)."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
