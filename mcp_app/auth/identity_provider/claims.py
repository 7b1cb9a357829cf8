"""Claims of a verified token: user, client, scopes and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.auth.own_addresses import EVERY
from mcp_app.conf import Settings
from mcp_app.protocol import scopes

MAX_NAME: Final = 255
# Claims that may contain the client id, as used by RFC 9068, OpenID Connect, Entra and Okta.
_CLIENT: Final = ("client_id", "azp", "appid", "cid")
# Claims that may contain the scopes: RFC 9068 uses ``scope``, Entra and Okta use ``scp``. Entra uses
# ``roles`` for a program that acts without a user.
_SCOPES: Final = ("scope", "scp", "roles")


@dataclass(frozen=True, slots=True)
class Claims:
    """The parsed claims of a token.

    ``groups`` are names of Django groups, ``scopes`` are scopes of this server, and times are in seconds
    since the epoch.
    """

    issuer: str
    subject: str
    client: str
    username: str
    groups: frozenset[str]
    scopes: frozenset[str]
    audiences: frozenset[str]
    issued_at: int
    ends: float


def read(payload: Mapping[str, Any], settings: Settings, skew: float) -> Claims:
    """Parse the claims of a verified token.

    ``skew`` is the number of seconds for which the token stays valid after its expiry.
    """
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
        audiences=_names(payload["aud"]),
        # A token without a time of issue is dated by its expiry instead, so that tokens can still be ordered.
        issued_at=int(payload.get("iat", payload.get("nbf", ends))),
        ends=ends + skew,
    )


def _scopes(payload: Mapping[str, Any], given: Mapping[str, str]) -> frozenset[str]:
    """Return the scopes of this server to which the token's scopes correspond."""
    claimed = next((payload[name] for name in _SCOPES if name in payload), None)
    named = frozenset(claimed.split()) if isinstance(claimed, str) else _names(claimed)
    if not given:
        return scopes.widened(named.intersection(scopes.ALL))
    held: set[str] = set()
    for name, stands_for in given.items():
        # Entra expects a scope's full address in a request, but puts only the last part of the address into
        # the token.
        if name == EVERY or not named.isdisjoint((name, name.rpartition("/")[2])):
            held.update(stands_for.split())
    return scopes.widened(held)


def _at(payload: Mapping[str, Any], name: str) -> Any:
    """Return the claim with a name, or at a path such as ``realm_access.roles``."""
    if name in payload:
        return payload[name]
    value: Any = payload
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _names(value: Any) -> frozenset[str]:
    """Return the names in a claim that is a list or a single name. A single name is not split at blanks."""
    items: Iterable[Any] = value if isinstance(value, list) else (value,)
    return frozenset(item for item in items if isinstance(item, str))
