"""Stored rows, requests about them, and users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache

from mcp_app.auth.roles import make_roles
from mcp_app.catalogue.snapshots import current_snapshot
from tests.integration.roles import people
from tests.integration.roles.people import Asking
from tests.integration.roles.requests import Requests
from tests.integration.roles.rows import Rows, store

AskingOf = Callable[[str], Asking]


@pytest.fixture
def rows(db: None, clean_redis: str, settings: Any) -> Iterator[Rows]:
    """Store all rows, on a server with Redis and without rate limits."""
    settings.MCP = {
        **settings.MCP,
        "REDIS_URL": clean_redis,
        "API_REQUESTS_PER_MINUTE": 0,
        "API_REFUSALS_PER_MINUTE": 0,
        "PUBLIC_URL": "",
    }
    make_roles()
    found = store()
    before = current_snapshot.current()
    current_snapshot.refresh_now(force=True)
    yield found
    current_snapshot.replace(before)
    cache.clear()


@pytest.fixture
def requests(rows: Rows) -> Requests:
    """Return the requests of all ways."""
    return Requests(rows)


@pytest.fixture
def asking(rows: Rows) -> AskingOf:
    """Return a factory of users by name in ``people.PEOPLE``."""
    return people.asking
