"""Metadata and keys of an identity provider (RFC 7517, 8414, OpenID discovery)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_app import conf
from mcp_app.auth.own_addresses import audiences
from mcp_app.egress import EgressError, Fetched, Network, Policy, fetch
from mcp_app.egress.policy import networks

MAX_DOCUMENT: Final = 256 * 1024
# Time limit in seconds for one document, and for all requests until the keys have arrived.
SECONDS: Final = 5.0
ALL_SECONDS: Final = 10.0
_TYPES: Final = frozenset({"application/json", "application/jwk-set+json"})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class KeysAway(Exception):
    """Raised if the provider's keys cannot be fetched or used. The text is for the operator."""


@dataclass(frozen=True, slots=True)
class Provider:
    """An accepted identity provider.

    ``issuer`` must equal the issuer in its tokens. ``audiences`` are the allowed audiences of its tokens.
    ``reachable`` are private networks that requests to the provider may reach.
    """

    issuer: str
    jwks_url: str
    audiences: frozenset[str]
    reachable: frozenset[Network]


def configured() -> Provider:
    """Return the configured provider.

    The audiences default to the addresses of this installation.
    """
    settings = conf.get()
    return Provider(
        settings.oauth_issuer,
        settings.oauth_jwks_url,
        frozenset(settings.oauth_audience) or audiences(),
        networks(settings.egress_allow),
    )


async def fetch_keys(provider: Provider) -> list[Any]:
    """Return the members of the provider's key set. Raises KeysAway if the set cannot be fetched or read."""
    try:
        async with asyncio.timeout(ALL_SECONDS):
            address = provider.jwks_url or str((await fetch_metadata(provider, ("jwks_uri",)))["jwks_uri"])
            keys = (await _document(address, provider)).get("keys")
    except TimeoutError:
        raise KeysAway(f"{provider.issuer} did not respond within {ALL_SECONDS:g} seconds.") from None
    if not isinstance(keys, list):
        raise KeysAway(f"{address} is no set of keys.")
    return keys


async def fetch_metadata(provider: Provider, needed: tuple[str, ...]) -> dict[str, Any]:
    """Return the provider's metadata.

    Each of the ``needed`` members must be a safe address. Raises KeysAway if no valid metadata can be
    fetched.
    """
    reasons = []
    for address in metadata_addresses(provider.issuer):
        try:
            said = await _document(address, provider)
        except KeysAway as away:
            reasons.append(str(away))
            continue
        # Metadata with another issuer could come from an attacker and must not be used (RFC 8414 section
        # 3.3).
        if said.get("issuer") != provider.issuer:
            reasons.append(f"{address} is about the issuer {str(said.get('issuer'))[:200]!r}.")
        elif unsafe := [name for name in needed if not _is_as_safe(said.get(name), provider.issuer)]:
            reasons.append(f"{address} names no {', '.join(unsafe)} that can be used safely.")
        else:
            return said
    raise KeysAway(" ".join(reasons))


def metadata_addresses(issuer: str) -> tuple[str, ...]:
    """Return the possible addresses of an issuer's metadata.

    The addresses differ only if the issuer has a path.
    """
    parts = urlsplit(issuer)
    host, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return tuple(
        dict.fromkeys(
            (
                f"{host}{path}/.well-known/openid-configuration",
                f"{host}/.well-known/oauth-authorization-server{path}",
                f"{host}/.well-known/openid-configuration{path}",
            )
        )
    )


def _is_as_safe(url: Any, issuer: str) -> bool:
    return isinstance(url, str) and url.startswith(("https://", f"{urlsplit(issuer).scheme}://"))


async def _document(url: str, provider: Provider) -> dict[str, Any]:
    try:
        got: Fetched = await fetch(url, policy_for(url, provider))
    except EgressError as error:
        raise KeysAway(f"{url} could not be fetched. {error}") from None
    said = got.json_object() if got.status == 200 else None
    if said is None:
        raise KeysAway(f"{url} answered {got.status} without a JSON object.")
    return said


def policy_for(url: str, provider: Provider) -> Policy:
    """Return the policy for fetches from the provider.

    It forbids redirects, limits time and size, and allows only port 443 and the provider's own ports.
    """
    named = (url, provider.issuer) if url == provider.jwks_url else (provider.issuer,)
    return Policy(
        ports=frozenset({443, *(_port(each) for each in named)}),
        allow=provider.reachable,
        content_types=_TYPES,
        max_redirects=0,
        max_raw_bytes=MAX_DOCUMENT,
        max_bytes=MAX_DOCUMENT,
        seconds=SECONDS,
        connect_seconds=3.0,
    )


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or _DEFAULT_PORTS[parts.scheme]
