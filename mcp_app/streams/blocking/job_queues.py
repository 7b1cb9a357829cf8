"""Owns a look into Celery's queues on Redis: how many jobs wait; must not know what the jobs are."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client

# The broker keeps a queue as one list for each step of priority; the first has the queue's own name.
SEPARATOR = "\x06\x16"
STEPS = (3, 6, 9)


class JobQueues:
    """Reads the lengths of queues; usable from threads, changes nothing."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def depths(self, queues: Iterable[str]) -> dict[str, int]:
        """How many jobs of each queue no worker has taken yet. Raises StreamsUnavailable."""
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
