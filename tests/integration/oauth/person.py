"""A user with a browser, who logs in by the form, decides and is redirected; and an operator who ends
connections.
"""

from __future__ import annotations

import html
import re
from typing import Self
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.servers.live import LiveServer

NAME, PASSWORD = "ada", "a long enough password"
OPERATOR = "root"
CONNECTIONS = "/admin/mcp_oauth/connection/"
PEOPLE = f"""
from django.contrib.auth import get_user_model
get_user_model().objects.create_user({NAME!r}, password={PASSWORD!r})
get_user_model().objects.create_superuser({OPERATOR!r}, password={PASSWORD!r})
"""
CALLBACK = "http://127.0.0.1:33418/callback"
_FIELD = re.compile(r'<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


class Operator:
    """An administrator who ends connections in the admin."""

    def __init__(self, server: LiveServer) -> None:
        self._admin = httpx2.Client(
            base_url=server.url.removesuffix("/mcp"), follow_redirects=True, timeout=60
        )
        page = self._admin.get("/admin/login/").text
        self._post("/admin/login/", page, username=OPERATOR, password=PASSWORD, next="/admin/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def end_all(self) -> None:
        """Select every connection of the list and run the action."""
        page = self._admin.get(CONNECTIONS).text
        boxes = [each for each in re.findall(r"<input[^>]*>", page) if 'name="_selected_action"' in each]
        chosen = [found[1] for each in boxes if (found := re.search(r'value="(\d+)"', each))]
        assert chosen, page[:2000]
        self._post(CONNECTIONS, page, action="end_connections", _selected_action=chosen)

    def end_each(self) -> None:
        """Open every connection of the list and press its button."""
        listed = self._admin.get(CONNECTIONS).text
        pages = sorted(set(re.findall(rf'href="({CONNECTIONS}\d+/change/)', listed)))
        assert pages, listed[:2000]
        for address in pages:
            page = self._admin.get(address).text
            for button in re.findall(r'formaction="([^"]*/end/[^"]*)"', page):
                self._post(html.unescape(button), page)

    def _post(self, address: str, page: str, **form: object) -> None:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert token, page[:2000]
        answer = self._admin.post(address, data={"csrfmiddlewaretoken": token[1], **form})
        assert answer.status_code == 200, answer.text[:2000]
        assert "errornote" not in answer.text


class Memory:
    """The token storage of a client between runs."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """A user who follows the address that a client opens; ``opened`` counts how often.

    ``sent_to`` is the final redirect address, ``way_back`` its query.
    """

    def __init__(self, decision: str = "allow", name: str = NAME, password: str = PASSWORD) -> None:
        self.decision = decision
        self.name, self.password = name, password
        self.opened = 0
        self.sent_to = ""
        self.way_back: dict[str, str] = {}

    async def open(self, url: str) -> None:
        """Log in, decide, and store the query of the redirect."""
        self.opened += 1
        async with httpx2.AsyncClient(timeout=60) as browser:
            page = await browser.get(url, follow_redirects=True)
            assert "Log in to" in page.text, page.text[:2000]
            page = await self._send(browser, page, username=self.name, password=self.password)
            page = await browser.get(urljoin(str(page.url), page.headers["location"]))
            assert "Connect" in page.text, page.text[:2000]
            answer = await self._send(browser, page, decision=self.decision)
            self.sent_to = answer.headers["location"]
            self.way_back = dict(parse_qsl(urlsplit(self.sent_to).query))

    async def back(self) -> AuthorizationCodeResult:
        """Return the result that the client's web server would receive."""
        return AuthorizationCodeResult(**self.way_back)

    async def _send(self, browser: httpx2.AsyncClient, page: httpx2.Response, **form: str) -> httpx2.Response:
        first = page.text.split("</form>")[0]
        hidden = {name: html.unescape(value) for name, value in _FIELD.findall(first)}
        action = re.search(r'<form[^>]*action="([^"]*)"', first)
        target = urljoin(str(page.url), action[1]) if action else str(page.url)
        return await browser.post(target, data={**hidden, **form})


# A client id that is a metadata document, and the stored document: no test reaches the internet, and the
# guarded fetch reaches no other host.
DOCUMENT = "https://client.example/metadata.json"
PUBLISHED = f"""
import orjson
from mcp_app.egress.client import Fetched
from mcp_app.oauth.documents import find_or_fetch

async def fetch(url, policy):
    said = {{"client_id": url, "client_name": "Published", "redirect_uris": [{CALLBACK!r}],
            "token_endpoint_auth_method": "none"}}
    return Fetched(url, 200, "application/json", "", orjson.dumps(said), {{"cache-control": "max-age=86400"}})

find_or_fetch({DOCUMENT!r}, fetch)
"""


def provider(url: str, memory: Memory, person: Person, document: str | None = None) -> OAuthClientProvider:
    """Return the official client's OAuth provider; ``document`` is the URL of its metadata document."""
    said = OAuthClientMetadata(
        redirect_uris=[CALLBACK],  # type: ignore[list-item]
        client_name="Python client",
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(url, said, memory, person.open, person.back, client_metadata_url=document)
