"""Token exchange (RFC 8693): the request with a caller's token, and the check of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app import conf
from mcp_app.credentials.checks import target_of

GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TYPES: Final = "urn:ietf:params:oauth:token-type:"
OF_ACCESS: Final = f"{_TYPES}access_token"
OF_JWT: Final = f"{_TYPES}jwt"
# Errors that concern the token of the caller and not the settings (RFC 8693 section 2.2.2).
OF_CALLER: Final = frozenset(("invalid_grant", "invalid_request", "access_denied", "login_required"))
EXPIRED: Final = "The login of the caller has expired."
LOGIN_AGAIN: Final = "Log in at the identity provider again, and repeat the call."

Form = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Subject:
    """The token of a caller, which is exchanged. ``ends`` is its expiry in seconds since the epoch."""

    token: str
    ends: float


def form(subject: Subject, url: str) -> Form:
    """Return the parameters of an exchange at ``url``, without those of the target."""
    return (
        ("grant_type", GRANT_TYPE),
        ("subject_token", subject.token),
        ("subject_token_type", _type_at(url)),
        ("requested_token_type", OF_ACCESS),
    )


def objection_to(answer: Mapping[str, Any], subject: Subject) -> str:
    """Return the reason why an issued token is not used, or ""."""
    if answer.get("issued_token_type") != OF_ACCESS:
        return "issued a token of another type than an access token (issued_token_type)."
    if not isinstance(answer.get("token_type"), str):
        return "did not say how its token is used (token_type)."
    if answer.get("access_token") == subject.token:
        return "returned the caller's own token, which is never sent to other servers."
    return ""


def resource_of(url: str) -> str:
    """Return the resource parameter for a server: its address without the query, which may contain a key."""
    target = target_of(url)
    return target.origin + target.path.partition("?")[0]


def _type_at(url: str) -> str:
    """Return the type of a caller's token at a token endpoint.

    To its issuer it is an access token, and to other servers a JWT (RFC 8693 section 3).
    """
    issuer = conf.get().oauth_issuer
    is_issuer = bool(issuer) and target_of(issuer).origin == target_of(url).origin
    return OF_ACCESS if is_issuer else OF_JWT
