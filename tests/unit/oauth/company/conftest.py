"""An installation whose people log in by an identity provider, and one of them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client as Browser

from tests.servers.identity_provider import IdentityProvider
from tests.unit.oauth.flow import BASE, HOST

US, SECRET = "mcp-server", "a secret: with a colon"
NEXT = "/oauth/apps?x=1"


class Company:
    """The provider as it is for us; ``person`` is what it says of whoever logs in."""

    def __init__(self, provider: IdentityProvider, browser: Browser) -> None:
        self.provider, self.browser = provider, browser
        base = provider.issuer
        provider.metadata = {
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "userinfo_endpoint": f"{base}/me",
        }
        self.person: dict[str, Any] = {"sub": "person-1", "groups": ["ops"]}

    def leave(self, **query: str) -> dict[str, str]:
        """What a browser that presses the button brings to the provider."""
        answer = self.browser.get("/accounts/company/login/", {"next": NEXT, **query})
        assert answer.status_code == 302, answer.content
        assert answer["Location"].startswith(self.provider.metadata["authorization_endpoint"] + "?")
        return dict(parse_qsl(urlsplit(answer["Location"]).query))

    def come_back(self, asked: dict[str, str], **claims: Any) -> Any:
        """The answer to the browser that comes back with a code; ``claims`` are changed in the ID token."""
        said = {"aud": US, "nonce": asked["nonce"], "client_id": None, "preferred_username": None, **claims}
        token = self.provider.token(header={"typ": "JWT"}, **said)
        self.provider.answers = {
            "/token": (200, {"access_token": "at", "token_type": "Bearer", "id_token": token}),
            "/me": (200, {"preferred_username": "grace", **self.person}),
        }
        return self.back(state=asked["state"], code="the code")

    def back(self, **query: str) -> Any:
        """The answer to whatever the browser brings back."""
        return self.browser.get("/accounts/company/callback/", query)

    def log_in(self, **claims: Any) -> Any:
        """All of it."""
        return self.come_back(self.leave(), **claims)

    @property
    def user(self) -> str:
        """Who is logged in, "" for nobody."""
        return str(self.browser.session.get("_auth_user_id", ""))


def challenge_of(verifier: str) -> str:
    """What S256 makes of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def company(settings: Any, transactional_db: None) -> Iterator[Company]:
    """A provider that knows us as a client with a secret."""
    with IdentityProvider() as provider:
        settings.MCP = {
            **settings.MCP,
            "LOGIN_ISSUER": provider.issuer,
            "LOGIN_CLIENT_ID": US,
            "LOGIN_CLIENT_SECRET": SECRET,
            "LOGIN_NAME": "Example Inc.",
            "OAUTH_GROUPS": {"ops": "MCP operator"},
            "EGRESS_ALLOW": ["127.0.0.0/8"],
            "PUBLIC_URL": BASE,
        }
        yield Company(provider, Browser(HTTP_HOST=HOST))
