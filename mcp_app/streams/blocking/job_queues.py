"""The lengths of Celery's queues on Redis."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client

# The broker stores a queue as one list per priority step. The list of the first step has the queue's own
# name.
SEPARATOR = "\x06\x16"
STEPS = (3, 6, 9)


class JobQueues:
    """A read-only view of queue lengths. Thread-safe."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        """Return the number of waiting jobs in each queue. Raise StreamsUnavailable."""
        names = list(dict.fromkeys(queues))
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for name in names:
                    for key in (name, *(f"{name}{SEPARATOR}{step}" for step in STEPS)):
                        pipeline.llen(key)
                lengths: list[int] = pipeline.execute()
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not say how many jobs wait.") from error
        size = 1 + len(STEPS)
        return {name: sum(lengths[at * size : (at + 1) * size]) for at, name in enumerate(names)}
