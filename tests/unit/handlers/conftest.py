"""A desk with an open session and an empty catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.streams.gateway import Streams
from tests.unit.handlers.desk import Desk, offer


@pytest.fixture(autouse=True)
def _empty_catalogue() -> Iterator[None]:
    before = current_snapshot.current()
    offer()
    yield
    current_snapshot.replace(before)


@pytest.fixture
async def streams() -> Streams:
    """Return the streams of one process."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
async def desk(streams: Streams) -> AsyncIterator[Desk]:
    """Return one process with one client."""
    made = Desk(streams)
    await made.open()
    yield made
    await made.process.calls.close(0.01)
