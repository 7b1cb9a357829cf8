"""A client as the tests play it: it registers, asks, takes the code from the way back, renews tokens."""

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
FORM = "application/x-www-form-urlencoded"
_TICKET = re.compile(r'name="ticket" value="([^"]+)"')


def challenge(verifier: str) -> str:
    """What S256 makes of a verifier."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


class Program:
    """One client; ``browser`` is that of the person it wants to connect as."""

    def __init__(self, browser: Browser, client_id: str = "", redirect_uri: str = CALLBACK) -> None:
        self.browser = browser
        self.wire = Browser(HTTP_HOST=HOST)  # No cookies: what the program itself sends.
        self.redirect_uri = redirect_uri
        self.verifier = secrets.token_urlsafe(48)
        self.client_id = client_id or self.register().json()["client_id"]

    def register(self, **said: Any) -> Any:
        """The answer to a registration."""
        body = {"client_name": "Test client", "redirect_uris": [self.redirect_uri], **said}
        return self.wire.post("/oauth/register", json.dumps(body), content_type="application/json")

    def query(self, **changed: Any) -> dict[str, Any]:
        """The parameters of an authorization request; those set to None are left out."""
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
        """The answer to an authorization request."""
        return self.browser.get("/oauth/authorize", self.query(**changed))

    def decide(self, page: Any, decision: str = "allow") -> Any:
        """The answer to what the person pressed on the consent page."""
        found = _TICKET.search(page.content.decode())
        assert found, page.content.decode()[-2000:]
        return self.browser.post("/oauth/authorize", {"ticket": found[1], "decision": decision})

    def code(self, **changed: Any) -> str:
        """A code that the person let this client have."""
        answer = self.decide(self.ask(**changed))
        return sent_back(answer)["code"]

    def token(self, **form: Any) -> Any:
        """The answer of the token endpoint to a form; parts set to None are left out."""
        said = {
            name: value for name, value in {"client_id": self.client_id, **form}.items() if value is not None
        }
        return self.post("/oauth/token", said)

    def post(self, path: str, form: dict[str, Any], **headers: Any) -> Any:
        """The answer to a form."""
        return self.wire.post(path, urlencode(form, doseq=True), content_type=FORM, **headers)

    def exchange(self, given: str, /, **changed: Any) -> Any:
        """The answer to a code."""
        form = {
            "grant_type": "authorization_code",
            "code": given,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            **changed,
        }
        return self.token(**form)

    def connect(self, **changed: Any) -> dict[str, Any]:
        """All of it: the tokens."""
        answer = self.exchange(self.code(**changed))
        assert answer.status_code == 200, answer.content
        return dict(answer.json())

    def refresh(self, token: str, **changed: Any) -> Any:
        """The answer to a refresh token."""
        return self.token(grant_type="refresh_token", refresh_token=token, **changed)


def sent_back(answer: Any) -> dict[str, str]:
    """The parameters of the way back to a client."""
    assert answer.status_code == 302, answer.content
    return dict(parse_qsl(urlsplit(answer["Location"]).query))
