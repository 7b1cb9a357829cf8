"""The public page and ``server.json``: contents, access and hidden facts.

No test here may use the database: pytest-django would fail it.
"""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.test import Client, override_settings

from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.snippets import CLIENTS, snippets

PAGES = ["/connect/", "/server.json"]
PUBLIC = "https://mcp.example.com"
HOSTILE = "'\"><script>pwned()</script>\u202e{{ 7|add:7 }}"


def settings_with(**values: Any) -> Any:
    return override_settings(MCP={"AUTH": "required", "PUBLIC_URL": PUBLIC, **values})


def shown(client: Client, **headers: Any) -> str:
    answer = client.get("/connect/", **headers)
    assert answer.status_code == 200
    return answer.content.decode()


def remote(client: Client, **headers: Any) -> str:
    (found,) = client.get("/server.json", **headers).json()["remotes"]
    return str(found["url"])


@settings_with(SERVER_NAME="orders", SERVER_TITLE="Orders & stock")
def test_page_shows_name_endpoint_and_every_client(client: Client) -> None:
    page = unescape(shown(client))
    assert "<bdi>Orders & stock</bdi>" in page
    assert f'id="endpoint" tabindex="0">{PUBLIC}/mcp</pre>' in page
    for snippet in snippets(ServerConnection("orders", f"{PUBLIC}/mcp", title="Orders & stock"), *CLIENTS):
        assert snippet.text in page
        assert f'href="{snippet.link}"' in page or not snippet.link


@pytest.mark.parametrize(("auth", "public_url", "needed"), [
    ("required", PUBLIC, True),
    ("required", "http://127.0.0.1:8000", True),
    ("loopback", "http://127.0.0.1:8000", False),
    # A proxy on this machine forwards requests from elsewhere; those need a key.
    ("loopback", PUBLIC, True),
])  # fmt: skip
def test_page_shows_whether_a_key_is_needed(auth: str, public_url: str, needed: bool, client: Client) -> None:
    with settings_with(AUTH=auth, PUBLIC_URL=public_url):
        page = shown(client)
        document = client.get("/server.json").json()
    assert ("YOUR_API_KEY" in page, "Ask an administrator" in page) == (needed, needed)
    assert ("Clients on this machine need no key." in page) != needed
    assert ("headers" in document["remotes"][0]) == needed


@settings_with(OAUTH=True)
def test_page_shows_no_key_with_oauth(client: Client) -> None:
    page = unescape(shown(client))
    assert "Give your client this address without a key" in page
    assert f"claude mcp add --transport http django-mcp {PUBLIC}/mcp</pre>" in page
    assert "headers" not in client.get("/server.json").json()["remotes"][0]


@settings_with(SERVER_NAME="orders", SERVER_VERSION="3.1.4")
def test_server_json_has_the_configured_version(client: Client) -> None:
    answer = client.get("/server.json")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    document = json.loads(answer.content)
    assert (document["name"], document["version"]) == ("com.example.mcp/orders", "3.1.4")


def test_public_url_wins_over_the_requested_host(client: Client) -> None:
    with settings_with(PUBLIC_URL=f"{PUBLIC}/"):
        assert remote(client, HTTP_HOST="testserver") == f"{PUBLIC}/mcp"


@pytest.mark.parametrize(
    ("host", "secure", "url"),
    [
        ("testserver", False, "http://testserver/mcp"),
        ("testserver:8443", True, "https://testserver:8443/mcp"),
        ("[::1]:8000", False, "http://[::1]:8000/mcp"),
    ],
)
def test_requested_host_is_used_without_a_public_url(
    host: str, secure: bool, url: str, client: Client
) -> None:
    with settings_with(PUBLIC_URL=""):
        assert remote(client, HTTP_HOST=host, secure=secure) == url


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("public_url", [PUBLIC, ""])
@pytest.mark.parametrize(
    "host", ["evil.example", "testserver.evil.example", "a@testserver", "<b>", "testserver/x"]
)
def test_disallowed_host_is_never_shown(host: str, public_url: str, path: str, client: Client) -> None:
    with settings_with(PUBLIC_URL=public_url):
        answer = client.get(path, HTTP_HOST=host)
    assert answer.status_code == 400
    assert b"evil" not in answer.content


@pytest.mark.parametrize("path", PAGES)
def test_impossible_port_returns_400(path: str, client: Client) -> None:
    with settings_with(PUBLIC_URL=""):
        assert client.get(path, HTTP_HOST="testserver:99999999").status_code == 400


@settings_with(SERVER_NAME=HOSTILE)
def test_page_escapes_a_hostile_name(client: Client) -> None:
    page = shown(client)
    assert "<script>pwned" not in page
    assert "\u202e" not in page
    assert "{{ 7|add:7 }}" in unescape(page)
    assert re.findall(r"<script\b[^>]*>", page) == ['<script src="/static/mcp_app/copy.js" defer>']


@settings_with()
def test_page_complies_with_its_csp(client: Client) -> None:
    answer = client.get("/connect/")
    policy = answer["Content-Security-Policy"]
    assert policy.startswith(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self';"
    )
    page = answer.content.decode()
    assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|<script>", page)
    assert set(re.findall(r'(?:src|href)="(https?:[^"?]*)', page)) == {
        "https://claude.ai/customize/connectors"
    }


def test_csp_allows_the_static_host(client: Client) -> None:
    with settings_with(), override_settings(STATIC_URL="https://cdn.example/static/"):
        assert "script-src cdn.example;" in client.get("/connect/")["Content-Security-Policy"]


@settings_with()
def test_copy_buttons_are_hidden_without_scripts(client: Client) -> None:
    buttons = re.findall(r"<button[^>]*>", shown(client))
    assert len(buttons) == 1 + len(CLIENTS)
    assert all(button.endswith(" hidden>") for button in buttons)


@settings_with()
@pytest.mark.parametrize("path", PAGES)
def test_page_reveals_no_tools_software_or_cookies(path: str, client: Client) -> None:
    answer = client.get(path, HTTP_COOKIE=f"sessionid={'s' * 32}; csrftoken={'c' * 32}")
    text = answer.content.decode().lower()
    assert not [name for name in ("get_timestamp", "web_scrape", "code_review", "demo://") if name in text]
    assert not re.search(r"django/|uvicorn|redis|csrf|sessionid|ssss|cccc", text)
    assert not answer.cookies
    assert "Cookie" not in answer.get("Vary", "")


@pytest.mark.parametrize("path", PAGES)
def test_setting_disables_both_pages(path: str, client: Client) -> None:
    with settings_with(CONNECT_PAGE=False):
        assert client.get(path).status_code == 404


@settings_with()
@pytest.mark.parametrize("path", PAGES)
def test_pages_refuse_post(path: str, client: Client) -> None:
    assert client.head(path).status_code == 200
    assert client.post(path).status_code == 405
