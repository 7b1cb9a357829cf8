"""A user with an API key, and a simulated outage of the key table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from mcp_app.auth.api_keys import issue_api_key
from mcp_app.models import ApiKey


@pytest.fixture
def user(transactional_db: None) -> Any:
    """Return an active user without permissions."""
    return get_user_model().objects.create_user("ada", password="not used here")


@pytest.fixture
def issued(user: Any) -> tuple[ApiKey, str]:
    """Issue a usable key to the user; return the row and the secret."""
    return issue_api_key(user=user, name="laptop")


@pytest.fixture
def key(issued: tuple[ApiKey, str]) -> ApiKey:
    """Return the row of the issued key."""
    return issued[0]


@pytest.fixture
def header(issued: tuple[ApiKey, str]) -> bytes:
    """Return the Authorization header that presents the key."""
    return b"Bearer " + issued[1].encode()


@pytest.fixture
def without_keys(transactional_db: None) -> Callable[[], AbstractContextManager[None]]:
    """Make queries on the key table fail inside the context."""
    table = ApiKey._meta.db_table

    @contextmanager
    def lost() -> Iterator[None]:
        with connection.schema_editor() as editor:
            editor.alter_db_table(ApiKey, table, table + "_lost")
        try:
            yield
        finally:
            with connection.schema_editor() as editor:
                editor.alter_db_table(ApiKey, table + "_lost", table)

    return lost
