"""The output of ``manage.py up`` about connecting a client."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpsite.environment import read
from mcpsite.first_start import FirstStart
from mcpsite.management.commands.up import healthy_block

FIRST = FirstStart(user="admin", password="made up", api_key="mcp_shown")
PROVIDER = "https://login.example.com/realms/main"
EXTERNAL = {"mcp_auth": "external", "oauth_issuer": PROVIDER}


def told(first: FirstStart | None = None, **given: Any) -> str:
    """Return the output as one line."""
    return re.sub(r"\s+", " ", healthy_block(read(**given), first))


@pytest.mark.parametrize("first", [FIRST, None], ids=["first start", "later"])
def test_identity_provider_login_is_explained(first: FirstStart | None) -> None:
    words = told(first, **EXTERNAL, public_url="https://mcp.example.com")
    assert f"no key: it opens a browser, where people log in at {PROVIDER} (docs/oauth.md" in words
    assert "for clients that cannot open a browser" in words
    assert "every request needs one" not in words
    # A client configured with a key header, even a wrong one, opens no browser.
    assert re.search(r"Client claude mcp add \S+ http \S+ https://mcp.example.com/mcp Stop", words)


def test_disabled_api_keys_are_reported_with_provider_login() -> None:
    words = told(FIRST, **EXTERNAL, public_url="https://mcp.example.com", api_keys=False)
    assert f"people log in at {PROVIDER}" in words
    assert "API key not accepted (API_KEYS)" in words
    assert "mcp_shown" not in words


def test_undiscoverable_provider_names_public_url_as_remedy() -> None:
    hosts = {"host": "0.0.0.0", "allowed_hosts": ("mcp.example.com",), "oauth_audience": ("api://mcp",)}
    words = told(**EXTERNAL, **hosts)
    assert f"requests need a token of {PROVIDER} for this server" in words
    assert "where PUBLIC_URL is set" in words
    assert "every request needs one, or a token of the provider" in words


def test_local_login_is_explained_per_auth_mode() -> None:
    assert "a browser, where this user logs in (docs/oauth.md" in told(FIRST, mcp_auth="required")
    assert "a browser, where a user of the admin logs in (docs/oauth.md" in told(mcp_auth="required")
    assert "Log in" not in told(FIRST)
