"""A started in-memory gateway for the tests of calls and replies."""

from __future__ import annotations

import pytest

from mcp_app.streams.gateway import Streams


@pytest.fixture
async def streams() -> Streams:
    """The event streams of one process."""
    made = Streams.in_memory()
    await made.start()
    return made
