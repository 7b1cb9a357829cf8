"""A pytest plugin for ``make test-postgres`` that keeps only the tests that use the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

FIXTURES = {
    "db",
    "transactional_db",
    "django_db_reset_sequences",
    "admin_client",
    "admin_user",
    "live_server",
}


def _touches_the_database(item: pytest.Item) -> bool:
    fixtures = set(getattr(item, "fixturenames", ()))
    return (
        any(item.iter_markers("django_db")) or any(item.iter_markers("postgres")) or bool(FIXTURES & fixtures)
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that do not use the database."""
    kept = [item for item in items if _touches_the_database(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.fixture(scope="session", autouse=True)
def _no_session_outlives_the_tests(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Close idle connections left by tests with threads: PostgreSQL cannot drop a database in use."""
    yield
    from django.db import connection

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
