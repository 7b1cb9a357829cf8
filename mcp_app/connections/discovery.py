"""The authorization server of an upstream server, by RFC 9728 and RFC 8414 or OpenID Connect.

All documents come from the other server, so each member is checked before it is used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from mcp_app.credentials.checks import target_of
from mcp_app.egress import EgressError, Request, exchange
from mcp_app.protocol.client import outgoing
from mcp_app.protocol.client.challenges import parameters_of, scopes_in
from mcp_app.protocol.client.outgoing import Identity
from mcp_app.upstreams.accounts.reach import covers, objection_to, policy_for

ALL_SECONDS: Final = 20.0
MAX_SERVERS: Final = 5
_PROTECTED: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_MAX_ISSUER: Final = 500


class LoginRefused(Exception):
    """A login that cannot continue. The text is for the user and contains no secret."""


@dataclass(frozen=True, slots=True)
class Resource:
    """The description of a protected server: its resource, authorization servers and scopes."""

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Authority:
    """An authorization server, as its metadata describes it. Addresses that it does not have are ""."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    revocation_endpoint: str
    auth_methods: tuple[str, ...]
    scopes: tuple[str, ...]
    names_issuer: bool
    takes_documents: bool


async def find(url: str, trusted: Collection[str] = ()) -> tuple[Resource, Authority]:
    """Return the resource and the authorization server of the server at ``url``. Raise LoginRefused.

    ``trusted`` are origins that an administrator entered. They may be in a private network.
    """
    try:
        async with asyncio.timeout(ALL_SECONDS) as limit:
            resource = await _resource(url, trusted)
            return resource, await _authority(url, resource, trusted)
    except TimeoutError:
        if not limit.expired():
            raise
        raise LoginRefused(f"The server did not describe its login within {ALL_SECONDS:g} seconds.") from None


async def _resource(url: str, trusted: Collection[str]) -> Resource:
    challenge = await _challenge(url)
    target = target_of(url)
    path = target.path.partition("?")[0].rstrip("/")
    stated = challenge.get("resource_metadata", "")
    places = [stated] if stated else []
    places += [f"{target.origin}{_PROTECTED}{path}", f"{target.origin}{_PROTECTED}"]
    for place in dict.fromkeys(places):
        found = await _document(place, url, trusted)
        if found is not None:
            return _read_resource(found, url, challenge.get("scope", ""))
    # Servers of 2025-03-26 have no such document: their host is the authorization server.
    return Resource(f"{target.origin}{path}", (target.origin,), scopes_in(challenge.get("scope", "")))


def _read_resource(found: Mapping[str, Any], url: str, asked: str) -> Resource:
    resource = found.get("resource")
    if not isinstance(resource, str) or len(resource) > 2_000 or not covers(resource, url):
        raise LoginRefused("The description of the server's login (RFC 9728) is for another address.")
    named = [each for each in _texts(found.get("authorization_servers")) if len(each) <= _MAX_ISSUER]
    issuers = [each for each in named if not objection_to(each)]
    if not issuers:
        raise LoginRefused("The server names no authorization server with a usable address.")
    scopes = scopes_in(asked) or scopes_in(" ".join(_texts(found.get("scopes_supported"))))
    return Resource(resource, tuple(issuers[:MAX_SERVERS]), scopes)


async def _authority(url: str, resource: Resource, trusted: Collection[str]) -> Authority:
    reasons = []
    # Of several servers, those that an administrator knows come first.
    for issuer in sorted(resource.issuers, key=lambda each: target_of(each).origin not in trusted):
        for place in _places(issuer):
            found = await _document(place, url, trusted)
            if found is None:
                continue
            try:
                return _read_authority(found, issuer)
            except LoginRefused as refused:
                reasons.append(str(refused))
    raise LoginRefused(reasons[0] if reasons else "The authorization server cannot be found.")


def _places(issuer: str) -> Iterator[str]:
    """Yield the addresses of an issuer's metadata (RFC 8414 section 3.1, OpenID Connect Discovery)."""
    origin, path = target_of(issuer).origin, urlsplit(issuer).path.rstrip("/")
    yield f"{origin}{_OAUTH}{path}"
    yield f"{origin}{_OPENID}{path}"
    if path:
        yield f"{origin}{path}{_OPENID}"


def _read_authority(found: Mapping[str, Any], issuer: str) -> Authority:
    if found.get("issuer") != issuer:
        raise LoginRefused("The metadata of the authorization server belongs to another issuer.")
    if "S256" not in _texts(found.get("code_challenge_methods_supported")):
        raise LoginRefused("The authorization server does not support PKCE with S256.")
    if "code" not in _texts(found.get("response_types_supported")):
        raise LoginRefused("The authorization server does not issue authorization codes.")
    endpoints = {}
    for name in ("authorization", "token", "registration", "revocation"):
        endpoint = found.get(f"{name}_endpoint")
        if endpoint is None and name in ("registration", "revocation"):
            endpoints[name] = ""
        elif problem := objection_to(endpoint):
            raise LoginRefused(f"The {name} endpoint of the authorization server {problem}")
        else:
            endpoints[name] = str(endpoint)
    return Authority(
        issuer,
        endpoints["authorization"],
        endpoints["token"],
        endpoints["registration"],
        endpoints["revocation"],
        _texts(found.get("token_endpoint_auth_methods_supported")) or ("client_secret_basic",),
        scopes_in(" ".join(_texts(found.get("scopes_supported")))),
        found.get("authorization_response_iss_parameter_supported") is True,
        found.get("client_id_metadata_document_supported") is True,
    )


async def _challenge(url: str) -> dict[str, str]:
    """Return the parameters of the challenge with which the server answers a request without credential."""
    sent = outgoing.discover(Identity({"name": "django-mcp", "version": "1"}), "login")
    request = Request("POST", url, sent.headers, sent.body)
    try:
        async with exchange(request, policy_for(url, url)) as answer:
            headers = [value for name, value in answer.headers if name == "www-authenticate"]
            return parameters_of(", ".join(headers)) if answer.status in (401, 403) else {}
    except (EgressError, ValueError) as error:
        raise LoginRefused(f"The server cannot be reached. {error}") from None


async def _document(place: str, url: str, trusted: Collection[str]) -> dict[str, Any] | None:
    """Return a JSON object, or None if there is none at this address."""
    if objection_to(place):
        return None
    request = Request("GET", place, (("Accept", "application/json"),))
    try:
        async with exchange(request, policy_for(place, url, trusted)) as answer:
            found = orjson.loads(await answer.read()) if answer.status == 200 else None
    except (EgressError, orjson.JSONDecodeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
