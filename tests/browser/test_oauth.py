"""OAuth in a real browser: login, consent, and the redirect to the client."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.servers.live import LiveServer
from tests.servers.sinks import page_server

PERSON = """
from django.contrib.auth import get_user_model
get_user_model().objects.create_user("ada", password="a long enough password")
"""


@pytest.fixture(scope="module")
def oauth_server() -> Iterator[LiveServer]:
    """Start a server that requires authentication, with a user."""
    with LiveServer(web_processes=1, env={"MCP_AUTH": "required"}) as running:
        running.shell(PERSON)
        yield running


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    """Open a page without cookies."""
    context = chromium.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture
def callback() -> Iterator[str]:
    """Return the address at which a client on the user's machine waits for the redirect."""
    with page_server(b"The client's own page.") as address:
        yield f"{address}/callback"


def question(server: LiveServer, callback: str) -> str:
    """Return the authorization address of a newly registered client."""
    base = server.url.removesuffix("/mcp")
    said = json.dumps({"client_name": "Test client", "redirect_uris": [callback]}).encode()
    request = urllib.request.Request(
        f"{base}/oauth/register", said, {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request) as answer:
        client_id = json.load(answer)["client_id"]
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": callback,
        "code_challenge": "x" * 43,
        "code_challenge_method": "S256",
        "state": "as sent",
    }
    return f"{base}/oauth/authorize?{urlencode(asked)}"


@pytest.mark.parametrize(("button", "told"), [("Allow", "code"), ("Deny", "error")])
def test_decision_of_the_user_reaches_the_client(
    oauth_server: LiveServer, tab: Page, callback: str, button: str, told: str
) -> None:
    tab.goto(question(oauth_server, callback))
    tab.get_by_label("Username").fill("ada")
    tab.get_by_label("Password").fill("a long enough password")
    tab.get_by_role("button", name="Log in").click()
    tab.get_by_role("button", name=button, exact=True).click()
    tab.wait_for_url(f"{callback}?**")
    assert tab.locator("body").inner_text() == "The client's own page."
    query = parse_qs(urlsplit(tab.url).query)
    assert told in query
    assert query["state"] == ["as sent"]
