"""Two web processes that let nobody in without a credential, and one person."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.oauth.person import NAME, PASSWORD
from tests.live import LiveServer

PEOPLE = f"""
from django.contrib.auth import get_user_model
get_user_model().objects.create_user({NAME!r}, password={PASSWORD!r})
"""


@pytest.fixture(scope="session")
def server() -> Iterator[LiveServer]:
    """The server that the tests of this folder share."""
    with LiveServer(web_processes=2, env={"MCP_AUTH": "required"}) as running:
        running.shell(PEOPLE)
        yield running
