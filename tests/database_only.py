"""A pytest plugin for ``make test-postgres``: keeps only the tests that touch the database."""

from __future__ import annotations

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
    """Deselect what says nothing about the database."""
    kept = [item for item in items if _touches_the_database(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
