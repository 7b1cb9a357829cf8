"""This installation as a client of an authorization server: entered, by its document, or registered."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import orjson
from django.urls import NoReverseMatch, reverse

from mcp_app import conf
from mcp_app.auth.own_addresses import origin
from mcp_app.connections.discovery import Authority, LoginRefused
from mcp_app.credentials.checks import target_of
from mcp_app.credentials.services import CredentialRefused, oauth_client
from mcp_app.database import clock
from mcp_app.database.queries import aquery
from mcp_app.egress import EgressError, Request, exchange
from mcp_app.models import Upstream, UpstreamClient
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams.accounts.reach import SECONDS, policy_for
from mcp_app.upstreams.accounts.tokens import registered_secret, sealed_secret

# Servers forget clients that are not used. A client without use in this time is registered again.
UNUSED: Final = timedelta(hours=1)
IDLE: Final = timedelta(days=30)
GRANTS: Final = ("authorization_code", "refresh_token")
Origin = UpstreamClient.Origin
_MAX_ID: Final = 1_000
_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
_NO_CLIENT: Final = (
    "The authorization server does not register clients. An administrator has to enter an OAuth client in "
    "the settings of the server."
)

_SEVERAL_ORIGINS: Final = (
    "The authorization server uses addresses of several hosts and does not name itself in its responses (RFC "
    "9207). An administrator has to enter an OAuth client in the settings of the server."
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Our addresses for the logins of one server: the redirect URI, and our metadata document.

    Each server has its own redirect URI, so the response of one authorization server is never read as that of
    another. ``document`` is "" if other servers cannot fetch it.
    """

    callback: str
    document: str


def addresses_of(pk: int, host: str = "") -> Addresses:
    """Return our addresses for a server. Raise LoginRefused without a public address."""
    base = origin(host)
    if not base:
        raise LoginRefused("This installation has no public address: an administrator has to set PUBLIC_URL.")
    try:
        callback, document = (
            base + reverse(name, args=[pk]) for name in ("mcp_connection_callback", "mcp_connection_client")
        )
    except NoReverseMatch:
        raise LoginRefused("The project does not serve the pages of this server.") from None
    return Addresses(callback, document if base.startswith("https://") else "")


def document_of(pk: int) -> dict[str, Any]:
    """Return our client metadata document for the logins of a server.

    It says the same for each number, so it does not show which servers exist.
    """
    addresses = addresses_of(pk)
    return {"client_id": addresses.document, **_metadata(addresses, "none"), "client_uri": origin()}


async def client_for(upstream: Upstream, authority: Authority, addresses: Addresses) -> UpstreamClient:
    """Return our client at an authorization server, unsaved if it is new. Raise LoginRefused."""
    if upstream.oauth_client:
        return await _entered(upstream, authority, addresses)
    _check_origins(authority)
    if authority.takes_documents and addresses.document:
        return _client(upstream, authority, addresses, Origin.DOCUMENT, addresses.document, "none")
    if not authority.registration_endpoint:
        raise LoginRefused(_NO_CLIENT)
    return await _registered(upstream, authority, addresses)


def _check_origins(authority: Authority) -> None:
    """Raise LoginRefused if metadata may combine the login page of one server with endpoints of another.

    Without the issuer in a response, nothing in it shows which server has issued the code (RFC 9700 section
    4.4). The code must not be sent to another server than that of the login page.
    """
    addresses = (
        authority.issuer, authority.authorization_endpoint, authority.token_endpoint,
        authority.registration_endpoint, authority.revocation_endpoint,
    )  # fmt: skip
    if not authority.names_issuer and len({target_of(each).origin for each in addresses if each}) > 1:
        raise LoginRefused(_SEVERAL_ORIGINS)


def stored_client(client: UpstreamClient) -> UpstreamClient:
    """Store a client, or return the stored client with the same id and settings."""
    same = {
        name: getattr(client, name)
        for name in (
            "upstream_id", "issuer", "origin", "credential", "client_id", "redirect_uri", "token_endpoint",
            "revocation_endpoint", "auth_method",
        )
    }  # fmt: skip
    found = UpstreamClient.objects.filter(**same, retired_at=None).order_by("-pk").first()
    if found is not None:
        return found
    client.save()
    return client


def usable_registration(upstream: Upstream, authority: Authority, callback: str) -> UpstreamClient | None:
    """Return the stored registration at a server with its current token endpoint.

    Return None if the server may have forgotten it, or its secret cannot be read.
    """
    rows = UpstreamClient.objects.filter(
        upstream=upstream,
        issuer=authority.issuer,
        token_endpoint=authority.token_endpoint,
        origin=Origin.REGISTERED,
        redirect_uri=callback,
        retired_at=None,
    )
    row = rows.order_by("-pk").first()
    if row is None or registered_secret(row) is None:
        return None
    since = clock.utcnow() - (row.used_at or row.created_at)
    is_known = since < (IDLE if row.used_at else UNUSED) or row.connections.filter(problem="").exists()
    return row if is_known else None


async def _entered(upstream: Upstream, authority: Authority, addresses: Addresses) -> UpstreamClient:
    name = upstream.oauth_client
    try:
        # Metadata must not combine the token endpoint of this client with the login page of another server.
        await oauth_client(name, authority.authorization_endpoint)
        client_id, secret = await oauth_client(name, authority.token_endpoint)
    except CredentialRefused as refused:
        raise LoginRefused(str(refused)) from None
    if len(client_id) > _MAX_ID:
        raise LoginRefused(f"The client id of the credential {name!r} is too long.")
    method = "none"
    if secret:
        is_basic = "client_secret_basic" in authority.auth_methods
        method = "client_secret_basic" if is_basic else "client_secret_post"
    return _client(upstream, authority, addresses, Origin.ENTERED, client_id, method, credential=name)


async def _registered(upstream: Upstream, authority: Authority, addresses: Addresses) -> UpstreamClient:
    async def stored() -> UpstreamClient | None:
        return await aquery(usable_registration, upstream, authority, addresses.callback)

    lock, holder = f"upstream-client/{upstream.pk}", secrets.token_hex(8)
    if (found := await stored()) is not None:
        return found
    if not await asyncio.to_thread(shared_values.acquire, lock, holder, 2 * SECONDS):
        raise LoginRefused(
            "The registration at the authorization server is in progress. Try again in a moment."
        )
    try:
        if (found := await stored()) is not None:
            return found
        client = await _register(upstream, authority, addresses)
        await aquery(client.save)
        return client
    finally:
        await asyncio.to_thread(shared_values.release, lock, holder)


async def _register(upstream: Upstream, authority: Authority, addresses: Addresses) -> UpstreamClient:
    wanted = next((each for each in _METHODS if each in authority.auth_methods), "none")
    body = orjson.dumps(_metadata(addresses, wanted))
    headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
    url = authority.registration_endpoint
    try:
        async with exchange(Request("POST", url, headers, body), policy_for(url, upstream.url)) as answer:
            found = orjson.loads(await answer.read())
            status = answer.status
    except (EgressError, ValueError) as error:
        raise LoginRefused(f"The registration of this client failed. {error}") from None
    if status not in (200, 201) or not isinstance(found, dict):
        raise LoginRefused(f"The authorization server refused to register this client ({status}).")
    client_id, secret = found.get("client_id"), found.get("client_secret") or ""
    method = found.get("token_endpoint_auth_method") or wanted
    is_valid = isinstance(client_id, str) and 0 < len(client_id) <= _MAX_ID and client_id.isprintable()
    if not is_valid or not isinstance(secret, str) or method not in _METHODS:
        raise LoginRefused(
            "The authorization server answered the registration with a client that cannot be used."
        )
    if method != "none" and not secret:
        raise LoginRefused(
            "The authorization server registered this client without the secret that it requires."
        )
    return _client(
        upstream, authority, addresses, Origin.REGISTERED, str(client_id), str(method),
        sealed=sealed_secret(secret) if method != "none" else "",
    )  # fmt: skip


def _client(
    upstream: Upstream,
    authority: Authority,
    addresses: Addresses,
    known_by: Origin,
    client_id: str,
    method: str,
    **more: str,
) -> UpstreamClient:
    return UpstreamClient(
        upstream=upstream,
        issuer=authority.issuer,
        origin=known_by,
        client_id=client_id,
        auth_method=method,
        redirect_uri=addresses.callback,
        token_endpoint=authority.token_endpoint,
        revocation_endpoint=authority.revocation_endpoint,
        **more,
    )


def _metadata(addresses: Addresses, method: str) -> dict[str, Any]:
    is_local = addresses.callback.startswith("http://")
    return {
        "client_name": conf.get().server.label,
        "redirect_uris": [addresses.callback],
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native" if is_local else "web",
    }
