"""When OAuth login is offered by default."""

from __future__ import annotations

from typing import Any

import pytest

from mcpsite.environment import read


@pytest.mark.requirement("AUTH-29", "AUTH-20")
@pytest.mark.parametrize(
    ("given", "offers"),
    [
        ({}, False),  # A loopback server needs no login.
        ({"mcp_auth": "required"}, True),
        ({"mcp_auth": "required", "host": "::1"}, True),
        ({"mcp_auth": "required", "oauth": False}, False),
        ({"host": "0.0.0.0", "public_url": "https://mcp.example.com"}, True),
        ({"host": "0.0.0.0", "public_url": "http://mcp.example.com"}, False),
        ({"host": "0.0.0.0", "allowed_hosts": ("mcp.example.com",)}, False),
        ({"host": "127.0.0.1", "mcp_auth": "loopback", "public_url": "https://mcp.example.com"}, False),
        ({"host": "192.0.2.1"}, False),
    ],
)
def test_oauth_is_offered_on_https_or_loopback_if_login_is_required(
    given: dict[str, Any], offers: bool
) -> None:
    assert read(**given).offers_oauth == offers
