"""An empty registry for every catalogue test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_app.catalogue.definitions.registry import Registry, registry


@pytest.fixture(autouse=True)
def registered() -> Iterator[Registry]:
    """Return an empty registry; restore the demo entries afterwards."""
    with registry.isolated() as empty:
        yield empty
