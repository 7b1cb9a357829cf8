"""A server on in-memory streams with a small catalogue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http.asgi import Server


@pytest.fixture(autouse=True)
def _small_catalogue() -> Iterator[None]:
    before = current_snapshot.replace(Catalogue(revision=5, revisions=dict.fromkeys(KINDS, 5)))
    yield
    current_snapshot.replace(before)


@pytest.fixture
async def streams() -> Streams:
    """Return the streams shared by the processes of a test."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
async def server(streams: Streams) -> AsyncIterator[Server]:
    """Return one process."""
    made = Server(streams)
    yield made
    made.endpoint.connections.drain()
    await made.process.calls.close(0.01)
