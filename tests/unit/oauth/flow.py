"""A scripted client: registers, requests authorization, redeems the code, refreshes tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from django.test import Client as Browser

HOST = "127.0.0.1:8000"
BASE = f"http://{HOST}"
RESOURCE = f"{BASE}/mcp"
CALLBACK = "http://127.0.0.1:33418/callback"
ALL = "mcp mcp:tools mcp:resources mcp:prompts"
# All addresses of the authorization server's metadata.
METADATA_ADDRESSES = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    # Requested by clients that take the endpoint address for the issuer.
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/oauth-authorization-server/sse",
    "/.well-known/openid-configuration/mcp",
    "/.well-known/openid-configuration/sse",
    "/mcp/.well-known/oauth-authorization-server",
    "/mcp/.well-known/openid-configuration",
    "/sse/.well-known/oauth-authorization-server",
    "/sse/.well-known/openid-configuration",
)
FORM = "application/x-www-form-urlencoded"
_TICKET = re.compile(r'name="ticket" value="([^"]+)"')


def challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


class Program:
    """One client; ``browser`` is that of the user it connects for."""

    def __init__(self, browser: Browser, client_id: str = "", redirect_uri: str = CALLBACK) -> None:
        self.browser = browser
        self.wire = Browser(HTTP_HOST=HOST)  # Without cookies, for direct requests.
        self.redirect_uri = redirect_uri
        self.verifier = secrets.token_urlsafe(48)
        self.client_id = client_id or self.register().json()["client_id"]

    def register(self, **said: Any) -> Any:
        """Return the answer to a registration."""
        body = {"client_name": "Test client", "redirect_uris": [self.redirect_uri], **said}
        return self.wire.post("/oauth/register", json.dumps(body), content_type="application/json")

    def query(self, **changed: Any) -> dict[str, Any]:
        """Return the parameters of an authorization request, without those set to None."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": challenge(self.verifier),
            "code_challenge_method": "S256",
            "state": "as sent",
            "scope": ALL,
            "resource": RESOURCE,
            **changed,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def ask(self, **changed: Any) -> Any:
        """Return the answer to an authorization request."""
        return self.browser.get("/oauth/authorize", self.query(**changed))

    def decide(self, page: Any, decision: str = "allow") -> Any:
        """Return the answer to a button of the consent page."""
        found = _TICKET.search(page.content.decode())
        assert found, page.content.decode()[-2000:]
        return self.browser.post("/oauth/authorize", {"ticket": found[1], "decision": decision})

    def code(self, **changed: Any) -> str:
        """Return a code that the user granted to this client."""
        answer = self.decide(self.ask(**changed))
        return sent_back(answer)["code"]

    def token(self, **form: Any) -> Any:
        """Return the answer of the token endpoint to a form, without fields set to None."""
        said = {
            name: value for name, value in {"client_id": self.client_id, **form}.items() if value is not None
        }
        return self.post("/oauth/token", said)

    def post(self, path: str, form: dict[str, Any], **headers: Any) -> Any:
        """Return the answer to a form."""
        return self.wire.post(path, urlencode(form, doseq=True), content_type=FORM, **headers)

    def exchange(self, given: str, /, **changed: Any) -> Any:
        """Return the answer to a code."""
        form = {
            "grant_type": "authorization_code",
            "code": given,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            **changed,
        }
        return self.token(**form)

    def connect(self, **changed: Any) -> dict[str, Any]:
        """Perform the whole flow; return the tokens."""
        answer = self.exchange(self.code(**changed))
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def refresh(self, token: str, **changed: Any) -> Any:
        """Return the answer to a refresh token."""
        return self.token(grant_type="refresh_token", refresh_token=token, **changed)


def sent_back(answer: Any) -> dict[str, str]:
    """Return the parameters of a redirect to a client."""
    assert answer.status_code == 302, answer.content
    return dict(parse_qsl(urlsplit(answer["Location"]).query))
