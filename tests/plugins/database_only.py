"""A pytest plugin for ``make test-postgres`` that keeps only the tests that depend on the database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.one_of_each import first_cases

TESTS = Path(__file__).resolve().parent.parent
# Tests of pages and logins depend on the database only where they are marked ``postgres``.
PAGES = tuple(
    TESTS / folder
    for folder in (
        *("integration/admin", "integration/api", "integration/console"),
        *("unit/auth/identity_provider", "unit/oauth"),
    )
)
# Statements differ between the cases of these tables. Elsewhere, the first case of a table shows that its
# statements work on the other database; `make test` runs every case on SQLite.
EVERY_CASE = tuple(
    TESTS / folder
    for folder in ("unit/database", "unit/message_log", "unit/execution/stored", "integration/exposing")
)
# All tests of the files that open every page.
WHOLE = tuple(TESTS / "integration/admin" / name for name in ("test_hostile_text.py", "test_roles.py"))
FIXTURES = {
    "db",
    "transactional_db",
    "django_db_reset_sequences",
    "admin_client",
    "admin_user",
    "live_server",
}


def _is_in(item: pytest.Item, folders: tuple[Path, ...]) -> bool:
    return any(folder in item.path.parents for folder in folders)


def _is_of_pages(item: pytest.Item) -> bool:
    return item.path not in WHOLE and _is_in(item, PAGES)


def _has_every_case(item: pytest.Item) -> bool:
    return item.path in WHOLE or _is_in(item, EVERY_CASE)


def _depends_on_the_database(item: pytest.Item) -> bool:
    if any(item.iter_markers("postgres")):
        return True
    fixtures = set(getattr(item, "fixturenames", ()))
    return not _is_of_pages(item) and (any(item.iter_markers("django_db")) or bool(FIXTURES & fixtures))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that do not depend on the database."""
    first = first_cases(items)
    kept = [
        item for item in items if _depends_on_the_database(item) and (item in first or _has_every_case(item))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
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
