"""Doctor check of the identity provider."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.doctor import Installation, Level
from mcp_app.doctor.provider import keys
from tests.servers.identity_provider import IdentityProvider


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        yield running


def looked(settings: Any, provider: IdentityProvider, **more: Any) -> list[tuple[Level, str]]:
    settings.MCP = {
        **settings.MCP,
        "AUTH": "external",
        "OAUTH_ISSUER": provider.issuer,
        "OAUTH_AUDIENCE": ["api://mcp"],
        "EGRESS_ALLOW": ["127.0.0.0/8"],
        **more,
    }
    return [(finding.level, finding.text) for finding in keys(Installation.configured())]


def test_usable_provider_keys_are_counted(settings: Any, provider: IdentityProvider) -> None:
    assert looked(settings, provider) == [(Level.OK, f"usable keys of {provider.issuer}: 1")]


def test_unreachable_or_mismatched_provider_is_error_with_reason(
    settings: Any, provider: IdentityProvider
) -> None:
    provider.metadata = {"issuer": "https://other.example"}
    ((level, text),) = looked(settings, provider)
    assert level == Level.ERROR
    assert "https://other.example" in text
    provider.away = True
    ((level, text),) = looked(settings, provider)
    assert (level, "answered 503" in text) == (Level.ERROR, True)


def test_disallowed_private_network_is_error(settings: Any, provider: IdentityProvider) -> None:
    ((level, text),) = looked(settings, provider, EGRESS_ALLOW=[])
    assert level == Level.ERROR
    assert "private network" in text
    assert not provider.asked


def test_provider_is_not_queried_unless_configured(settings: Any, provider: IdentityProvider) -> None:
    assert looked(settings, provider, AUTH="required") == []
    assert not provider.asked
