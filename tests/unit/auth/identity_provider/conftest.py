"""A server that accepts tokens of a local identity provider and has verified none yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_app.auth.authentication import Authenticator
from tests.servers.identity_provider import IdentityProvider


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """Run an identity provider that serves its keys."""
    with IdentityProvider() as running:
        yield running


@pytest.fixture
def external(settings: Any, provider: IdentityProvider) -> Any:
    """Point settings at the provider; ``external(OAUTH_…=…)`` changes further settings."""

    def changed(**more: Any) -> None:
        settings.MCP = {**settings.MCP, **more}

    changed(
        AUTH="external",
        PUBLIC_URL="http://127.0.0.1:8000",
        OAUTH_ISSUER=provider.issuer,
        EGRESS_ALLOW=["127.0.0.0/8"],
    )
    return changed


@pytest.fixture
def authenticator(external: Any, transactional_db: None) -> Authenticator:
    """Return the authenticator that every request passes through."""
    return Authenticator("external")
