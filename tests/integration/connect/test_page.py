"""The public page and ``server.json``: what they show, to whom, at which address, and what they keep quiet.

No test here may touch the database: pytest-django would end it.
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
def test_the_page_has_the_name_the_endpoint_and_every_client_as_the_module_makes_them(client: Client) -> None:
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
    # A proxy on this machine forwards from elsewhere; those requests need a key.
    ("loopback", PUBLIC, True),
])  # fmt: skip
def test_the_page_says_whether_a_key_is_needed(
    auth: str, public_url: str, needed: bool, client: Client
) -> None:
    with settings_with(AUTH=auth, PUBLIC_URL=public_url):
        page = shown(client)
        document = client.get("/server.json").json()
    assert ("YOUR_API_KEY" in page, "Ask an administrator" in page) == (needed, needed)
    assert ("From this machine no key is needed." in page) != needed
    assert ("headers" in document["remotes"][0]) == needed


@settings_with(OAUTH=True)
def test_where_people_log_in_no_client_that_does_is_shown_a_key(client: Client) -> None:
    page = unescape(shown(client))
    assert "Give your client this address and no key" in page
    assert f"claude mcp add --transport http django-mcp {PUBLIC}/mcp</pre>" in page
    assert "headers" not in client.get("/server.json").json()["remotes"][0]


@settings_with(SERVER_NAME="orders", SERVER_VERSION="3.1.4")
def test_a_registry_gets_json_of_the_servers_own_version(client: Client) -> None:
    answer = client.get("/server.json")
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/json")
    document = json.loads(answer.content)
    assert (document["name"], document["version"]) == ("com.example.mcp/orders", "3.1.4")


def test_the_public_address_wins_over_the_host_that_was_asked_for(client: Client) -> None:
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
def test_without_a_public_address_it_is_the_allowed_host_that_was_asked_for(
    host: str, secure: bool, url: str, client: Client
) -> None:
    with settings_with(PUBLIC_URL=""):
        assert remote(client, HTTP_HOST=host, secure=secure) == url


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("public_url", [PUBLIC, ""])
@pytest.mark.parametrize(
    "host", ["evil.example", "testserver.evil.example", "a@testserver", "<b>", "testserver/x"]
)
def test_a_host_that_django_does_not_allow_is_never_shown(
    host: str, public_url: str, path: str, client: Client
) -> None:
    with settings_with(PUBLIC_URL=public_url):
        answer = client.get(path, HTTP_HOST=host)
    assert answer.status_code == 400
    assert b"evil" not in answer.content


@pytest.mark.parametrize("path", PAGES)
def test_a_port_that_does_not_exist_is_a_bad_request(path: str, client: Client) -> None:
    with settings_with(PUBLIC_URL=""):
        assert client.get(path, HTTP_HOST="testserver:99999999").status_code == 400


@settings_with(SERVER_NAME=HOSTILE)
def test_a_hostile_name_is_text_and_nothing_else(client: Client) -> None:
    page = shown(client)
    assert "<script>pwned" not in page
    assert "\u202e" not in page
    assert "{{ 7|add:7 }}" in unescape(page)
    assert re.findall(r"<script\b[^>]*>", page) == ['<script src="/static/mcp_app/copy.js" defer>']


@settings_with()
def test_the_page_obeys_the_strict_policy_it_is_sent_with(client: Client) -> None:
    answer = client.get("/connect/")
    policy = answer["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self';")
    page = answer.content.decode()
    assert not re.search(r"\son\w+=|\sstyle=|<style|javascript:|<script>", page)
    assert set(re.findall(r'(?:src|href)="(https?:[^"?]*)', page)) == {
        "https://claude.ai/customize/connectors"
    }


def test_files_from_another_host_are_allowed_by_the_policy(client: Client) -> None:
    with settings_with(), override_settings(STATIC_URL="https://cdn.example/static/"):
        assert "script-src cdn.example;" in client.get("/connect/")["Content-Security-Policy"]


@settings_with()
def test_without_scripts_no_button_is_shown_that_does_nothing(client: Client) -> None:
    buttons = re.findall(r"<button[^>]*>", shown(client))
    assert len(buttons) == 1 + len(CLIENTS)
    assert all(button.endswith(" hidden>") for button in buttons)


@settings_with()
@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_told_of_tools_software_or_visitors(path: str, client: Client) -> None:
    answer = client.get(path, HTTP_COOKIE=f"sessionid={'s' * 32}; csrftoken={'c' * 32}")
    text = answer.content.decode().lower()
    assert not [name for name in ("get_timestamp", "web_scrape", "code_review", "demo://") if name in text]
    assert not re.search(r"django/|uvicorn|redis|csrf|sessionid|ssss|cccc", text)
    assert not answer.cookies
    assert "Cookie" not in answer.get("Vary", "")


@pytest.mark.parametrize("path", PAGES)
def test_one_setting_switches_both_off(path: str, client: Client) -> None:
    with settings_with(CONNECT_PAGE=False):
        assert client.get(path).status_code == 404


@settings_with()
@pytest.mark.parametrize("path", PAGES)
def test_they_are_only_read(path: str, client: Client) -> None:
    assert client.head(path).status_code == 200
    assert client.post(path).status_code == 405
