"""Reads what a verified token claims: who, by which client, with which scopes, in which groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.auth.site import EVERY
from mcp_app.conf import Settings
from mcp_app.protocol import scopes

MAX_NAME: Final = 255
# RFC 9068, OpenID Connect, Entra, Okta.
_CLIENT: Final = ("client_id", "azp", "appid", "cid")
# RFC 9068; Entra and Okta; and what Entra writes for a program that acts for nobody.
_SCOPES: Final = ("scope", "scp", "roles")


@dataclass(frozen=True, slots=True)
class Claims:
    """``groups`` are Django's, ``scopes`` ours; both times are seconds since the epoch."""

    issuer: str
    subject: str
    client: str
    username: str
    groups: frozenset[str]
    scopes: frozenset[str]
    issued_at: int
    ends: float


def read(payload: Mapping[str, Any], settings: Settings, skew: float) -> Claims:
    """The claims of a token that is good until ``skew`` seconds after its end."""
    named = _names(_at(payload, settings.oauth_groups_claim))
    client = next((value for name in _CLIENT if isinstance(value := payload.get(name), str)), "")
    username = _at(payload, settings.oauth_username_claim)
    ends = float(payload["exp"])
    return Claims(
        issuer=payload["iss"],
        subject=payload["sub"],
        client=client,
        username=username[:MAX_NAME] if isinstance(username, str) else "",
        groups=frozenset(group for name, group in settings.oauth_groups.items() if name in named),
        scopes=_scopes(payload, settings.oauth_scopes),
        # Without the time at which it was issued, tokens are ordered by when they end.
        issued_at=int(payload.get("iat", payload.get("nbf", ends))),
        ends=ends + skew,
    )


def _scopes(payload: Mapping[str, Any], given: Mapping[str, str]) -> frozenset[str]:
    """The ceiling of the token, in our scopes. One without any scope of ours opens nothing."""
    told = next((payload[name] for name in _SCOPES if name in payload), None)
    named = frozenset(told.split()) if isinstance(told, str) else _names(told)
    if not given:
        return scopes.widened(named.intersection(scopes.ALL))
    held: set[str] = set()
    for name, stands_for in given.items():
        # Entra is asked for a scope by its full address, and writes its last part into the token.
        if name == EVERY or not named.isdisjoint((name, name.rpartition("/")[2])):
            held.update(stands_for.split())
    return scopes.widened(held)


def _at(payload: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or inside of others: ``realm_access.roles``."""
    if name in payload:
        return payload[name]
    value: Any = payload
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _names(value: Any) -> frozenset[str]:
    """A claim that is a list of names, or one of them. Names of groups may have blanks."""
    items: Iterable[Any] = value if isinstance(value, list) else (value,)
    return frozenset(item for item in items if isinstance(item, str))
