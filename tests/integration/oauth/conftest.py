"""Two web processes that let nobody in without a credential, one person, and an operator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.oauth.person import PEOPLE
from tests.servers.live import LiveServer


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """The server that the tests of this folder share."""
    with LiveServer(web_processes=2, env={"MCP_AUTH": "required", "OAUTH_DOCUMENTS": "on"}) as running:
        running.shell(PEOPLE)
        yield running
