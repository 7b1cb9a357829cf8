"""A pytest plugin, ``-p tests.plugins.one_of_each``: of each test with parameters, only those it has first.

For a suite that runs once more under other settings: what the parameters are for has been tried by then.
"""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all but the first of each test."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items)}
    chosen = [item for item in items if first[item.nodeid.partition("[")[0]] is item]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
