"""Fixtures that run the contract tests on Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from mcp_app.streams import StreamLimits, Streams
from tests.streams_contract.waiting import Connect


@pytest.fixture
async def connect(clean_redis: str) -> AsyncIterator[Connect]:
    """Return a function that connects a further "process" to the emptied Redis."""
    made: list[Streams] = []

    async def another(limits: StreamLimits | None = None) -> Streams:
        made.append(Streams.connect(clean_redis, limits))
        await made[-1].start()
        return made[-1]

    yield another
    for streams in made:
        await streams.close()


@pytest.fixture
async def streams(connect: Connect) -> Streams:
    """Return a connected gateway."""
    return await connect()


@pytest.fixture
def start(clean_redis: str) -> Callable[[], Streams]:
    """Return a factory of gateways that are not started."""
    return lambda: Streams.connect(clean_redis)
