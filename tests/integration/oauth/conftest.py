"""Two web processes that require authentication, a user, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.oauth.person import PEOPLE
from tests.servers.live import LiveServer


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """Start the server that all tests of this folder share."""
    with LiveServer(web_processes=2, env={"MCP_AUTH": "required", "OAUTH_DOCUMENTS": "on"}) as running:
        running.shell(PEOPLE)
        yield running
