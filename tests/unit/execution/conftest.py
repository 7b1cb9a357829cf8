"""A started in-memory gateway, and a process with one session on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mcp_app.streams.gateway import Streams
from tests.unit.execution.stage import Stage


@pytest.fixture
async def streams() -> Streams:
    """Return the event streams of one process."""
    made = Streams.in_memory()
    await made.start()
    return made


@pytest.fixture
async def stage(streams: Streams) -> AsyncIterator[Stage]:
    """Return a process whose calls end with the test."""
    made = Stage(streams)
    yield made
    await made.calls.close(0.01)
