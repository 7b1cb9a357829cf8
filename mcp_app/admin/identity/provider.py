"""The state of the identity provider in this process, and the test of a token.

The functions do not depend on an admin page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from django.utils import timezone

from mcp_app import conf, optional_parts
from mcp_app.auth.identity_provider import provider
from mcp_app.auth.own_addresses import names_provider, offers_company_login
from mcp_app.models import ExternalIdentity
from mcp_app.oauth.company.last_response import LastResponse, last_response
from mcp_app.protocol import scopes
from mcp_app.protocol.errors import Unavailable

if TYPE_CHECKING:
    from mcp_app.auth.identity_provider.verification import Verification


@dataclass(frozen=True, slots=True)
class ProviderState:
    """The state of the identity provider.

    ``keys`` are the keys in use with their algorithms. ``error`` is the error of the last fetch, or "".
    """

    issuer: str
    keys: list[tuple[str, str]]
    fetched_at: datetime | None
    error: str


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """The result of a token test. ``refused`` is the reason for a refusal, or "" for a valid token."""

    refused: str
    subject: str = ""
    scopes: str = ""
    groups: str = ""
    ends: datetime | None = None
    person: str = ""


def provider_state() -> ProviderState | None:
    """Return the state of the provider of ``AUTH = "external"``, or None if it is not configured."""
    held = _verification()
    if held is None:
        return None
    # This starts a fetch if necessary but does not wait, so that a slow provider cannot block the page.
    held.keys.arriving(None)
    keys, age, error = held.keys.state()
    fetched = timezone.now() - timedelta(seconds=age) if age is not None else None
    named = [(key.kid or "without a name", ", ".join(sorted(key.algorithms))) for key in keys]
    return ProviderState(conf.get().oauth_issuer, named, fetched, error)


def login_state() -> tuple[str, LastResponse] | None:
    """Return the issuer of the login provider and its last known state, or None if there is none."""
    return (conf.get().login_issuer, last_response()) if offers_company_login() else None


def verdict_on(token: str) -> TokenVerdict:
    """Test a token. No user is created, linked or added to groups."""
    held = _verification()
    if held is None:
        return TokenVerdict("No provider is configured.")
    from mcp_app.auth.identity_provider.verification import TokenRefused

    if (awaited := held.arriving(token)) is not None:
        awaited.result()
    try:
        claims = held.examine(token)
    except TokenRefused as refused:
        return TokenVerdict(str(refused))
    except Unavailable as away:
        return TokenVerdict(str(away))
    rows = ExternalIdentity.objects.select_related("user")
    known = rows.filter(issuer=claims.issuer, subject=claims.subject).first()
    return TokenVerdict(
        refused="" if claims.scopes else "The token has none of the scopes of this server (OAUTH_SCOPES).",
        subject=claims.subject,
        scopes=scopes.in_order(claims.scopes),
        groups=", ".join(sorted(claims.groups)),
        ends=datetime.fromtimestamp(min(claims.ends, 4e9), UTC),
        person=_person(known),
    )


def _person(known: ExternalIdentity | None) -> str:
    if known is not None:
        name = known.user.get_username()
        return name if known.user.is_active else f"{name}, who is deactivated and therefore refused"
    settings = conf.get()
    if settings.oauth_link_users:
        return "first login: linked to the local user of that name, unless that user is staff"
    return "first login: a user is created" if settings.oauth_create_users else "first login: refused"


def _verification() -> Verification | None:
    if not names_provider() or optional_parts.PROVIDER.missing():
        return None
    return provider.verification()
