"""An empty registry for every test of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcp_app.catalogue.definitions.registry import Registry, registry


@pytest.fixture(autouse=True)
def registered() -> Iterator[Registry]:
    """The registry, empty; the demo's entries are back afterwards."""
    with registry.isolated() as empty:
        yield empty
