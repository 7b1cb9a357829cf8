"""An installation with company login, and a user of its identity provider."""

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
    """The identity provider; ``person`` holds the claims about the user who logs in."""

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
        """Return the parameters that a browser brings to the provider after pressing the button."""
        answer = self.browser.get("/accounts/company/login/", {"next": NEXT, **query})
        assert answer.status_code == 302, answer.content
        assert answer["Location"].startswith(self.provider.metadata["authorization_endpoint"] + "?")
        return dict(parse_qsl(urlsplit(answer["Location"]).query))

    def come_back(self, asked: dict[str, str], **claims: Any) -> Any:
        """Return the answer to a callback with a code; ``claims`` override those of the ID token."""
        said = {"aud": US, "nonce": asked["nonce"], "client_id": None, "preferred_username": None, **claims}
        token = self.provider.token(header={"typ": "JWT"}, **said)
        self.provider.answers = {
            "/token": (200, {"access_token": "at", "token_type": "Bearer", "id_token": token}),
            "/me": (200, {"preferred_username": "grace", **self.person}),
        }
        return self.back(state=asked["state"], code="the code")

    def back(self, **query: str) -> Any:
        """Return the answer to an arbitrary callback."""
        return self.browser.get("/accounts/company/callback/", query)

    def log_in(self, **claims: Any) -> Any:
        """Perform the whole login; return its answer."""
        return self.come_back(self.leave(), **claims)

    @property
    def user(self) -> str:
        """The id of the logged-in user, "" if there is none."""
        return str(self.browser.session.get("_auth_user_id", ""))


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


@pytest.fixture
def company(settings: Any, transactional_db: None) -> Iterator[Company]:
    """Return a provider that knows this server as a confidential client."""
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
