"""The in-memory twin for the contract tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcp_app.streams import StreamLimits, Streams
from tests.streams_contract.waiting import CLOCK, Connect


@pytest.fixture
def connect() -> Connect:
    """Connect a further "process"; in memory it is the same one, with the limits of the first."""
    made: list[Streams] = []

    async def another(limits: StreamLimits | None = None) -> Streams:
        if not made:
            made.append(Streams.in_memory(limits, clock=CLOCK))
            await made[0].start()
        return made[0]

    return another


@pytest.fixture
async def streams(connect: Connect) -> Streams:
    """Return one started gateway."""
    return await connect()


@pytest.fixture
def start() -> Callable[[], Streams]:
    """Create a gateway that is not started yet."""
    made = Streams.in_memory()
    return lambda: made
