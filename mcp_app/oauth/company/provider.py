"""The identity provider for logins: its metadata and the requests that the library sends to it.

The requests go through the guarded client instead of the library's own HTTP client.
"""

from __future__ import annotations

import asyncio
import base64
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import quote_plus, urlencode

from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from asgiref.sync import async_to_sync
from django.http import HttpRequest
from django.urls import reverse

from mcp_app import conf
from mcp_app.auth.identity_provider.metadata import (
    ALL_SECONDS,
    KeysAway,
    Provider,
    fetch_metadata,
    policy_for,
)
from mcp_app.auth.own_addresses import origin
from mcp_app.egress import EgressError, Fetched, Sent, fetch
from mcp_app.egress.policy import networks
from mcp_app.oauth.company.last_response import record_failure, record_fetch

NEEDED: Final = ("authorization_endpoint", "token_endpoint")
FRESH_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 5.0
_ERROR: Final = re.compile(r"[a-z_]{1,60}")


def configured() -> Provider:
    """Return the configured provider. The ``aud`` claim of its ID tokens must be our client id."""
    settings = conf.get()
    return Provider(
        settings.login_issuer, "", frozenset({settings.login_client_id}), networks(settings.egress_allow)
    )


@dataclass(frozen=True, slots=True)
class _CachedMetadata:
    """The provider's cached metadata.

    ``said`` is None before the first successful fetch. ``away`` is the reason of the last failure.
    """

    said: dict[str, Any] | None
    until: float
    away: str = ""


_kept: dict[Provider, _CachedMetadata] = {}
_fetching = threading.Lock()


def metadata() -> dict[str, Any]:
    """Return the provider's metadata, which is fetched again every ten minutes.

    Any visitor can start a login. Therefore only one thread fetches at a time, and a failed fetch is retried
    after RETRY_SECONDS. After a failure, the previous metadata is returned.

    Raises OAuth2Error if no fetch has succeeded yet.
    """
    provider = configured()
    with _fetching:
        kept = _kept.get(provider, _CachedMetadata(None, 0.0))
        if kept.until < time.monotonic():
            try:
                said = async_to_sync(_fetched)(provider)
                kept = _CachedMetadata(said, time.monotonic() + FRESH_SECONDS)
                record_fetch(said)
            except (KeysAway, TimeoutError) as away:
                why = str(away) or f"It did not respond within {ALL_SECONDS:g} seconds."
                kept = _CachedMetadata(kept.said, time.monotonic() + RETRY_SECONDS, why)
                record_failure(why)
            _kept[provider] = kept
    if kept.said is None:
        raise OAuth2Error(f"{provider.issuer} does not say where to log in. {kept.away}")
    return kept.said


async def _fetched(provider: Provider) -> dict[str, Any]:
    async with asyncio.timeout(ALL_SECONDS):
        return await fetch_metadata(provider, NEEDED)


class CompanyProvider(OpenIDConnectProvider):
    """The library's provider object."""

    def get_oauth2_adapter(self, request: HttpRequest) -> Endpoints:
        return Endpoints(request)


class Endpoints(OpenIDConnectOAuth2Adapter):
    """The library's adapter, which uses the addresses from the provider's metadata."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request, "company")

    @property
    def openid_config(self) -> dict[str, Any]:
        """The provider's metadata. Its issuer has been checked."""
        return metadata()

    def get_provider(self) -> CompanyProvider:
        """Build the provider from the settings. The library's own method would also read the database."""
        settings = conf.get()
        config = {
            "server_url": settings.login_issuer,
            "scope": list(settings.login_scopes),
            "oauth_pkce_enabled": True,
            "fetch_userinfo": "userinfo_endpoint" in metadata(),
        }
        app = SocialApp(
            provider=OpenIDConnectProvider.id,
            provider_id=self.provider_id,
            name=settings.login_name or "your company",
            client_id=settings.login_client_id,
            secret=settings.login_client_secret,
            settings=config,
        )
        return CompanyProvider(self.request, app=app)

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        """Return the callback address.

        The host of the request is used only if it names this machine (SEC-12).
        """
        return origin(request.META.get("HTTP_HOST", "")) + reverse("mcp_oauth:company_callback")


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """A response in the form that the library expects. The body is always a JSON object."""

    said: dict[str, Any]
    status_code: int = 200

    @property
    def headers(self) -> dict[str, str]:
        """The only header that the library reads: the content type."""
        return {"content-type": "application/json"}

    @property
    def content(self) -> str:
        """A placeholder, because the library logs the body of failed responses and it may contain a token."""
        return "the response has none"

    def json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return self.said

    def raise_for_status(self) -> None:
        """Do nothing, because failed responses have already raised an error."""


class ProviderSession:
    """The part of a ``requests`` session that the library uses."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> ProviderResponse:
        """Fetch the userinfo endpoint."""
        return _request(url, Sent("GET", dict(headers or {})))

    def request(
        self,
        method: str,
        url: str,
        *,
        params: None = None,
        data: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
    ) -> ProviderResponse:
        """Post to the token endpoint."""
        sent = {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"}
        if auth is not None:
            # RFC 6749 section 2.3.1 requires the id to be quoted, because an unquoted colon would end the id.
            # The library does not quote it.
            pair = f"{quote_plus(auth.username)}:{quote_plus(auth.password)}"
            sent["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return _request(url, Sent("POST", sent, urlencode(data).encode()))


def _request(url: str, sent: Sent) -> ProviderResponse:
    try:
        got: Fetched = async_to_sync(fetch)(url, policy_for(url, configured()), sent=sent)
    except EgressError as error:
        raise OAuth2Error(f"{url} could not be asked. {error}") from None
    said = got.json_object()
    if said is None:
        raise OAuth2Error(f"{url} answered without a JSON object")
    if got.status != 200:
        # Log only the error code: the rest of the response may contain secrets.
        word = said.get("error")
        named = word if isinstance(word, str) and _ERROR.fullmatch(word) else "no error of OAuth"
        raise OAuth2Error(f"{url} answered {got.status} ({named})")
    return ProviderResponse(said)
