"""A pytest plugin, ``-p tests.plugins.one_of_each``: run only the first case of each parametrized test.

For a second run of a suite under other settings: the first run has covered the other cases.
"""

from __future__ import annotations

import pytest


def first_cases(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the first case of each test."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    return set(first.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but the first case of each test."""
    first = first_cases(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in first])
    items[:] = [item for item in items if item in first]
