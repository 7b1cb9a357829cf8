"""Owns the workers' sign of life, one key that expires; must not know what a worker is."""

from __future__ import annotations

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.client import sync_client
from mcp_app.streams.keys import WORKER

LIFE_SECONDS = 15


class Presence:
    """Says, and tells, whether a worker has been alive within the last LIFE_SECONDS; usable from threads."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def renew(self) -> None:
        """A worker is alive now. Raises StreamsUnavailable."""
        try:
            self._client.set(WORKER, b"1", ex=LIFE_SECONDS)
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not take the sign of life of this worker.") from error

    def seen(self) -> bool:
        """Whether a worker is alive. Raises StreamsUnavailable."""
        try:
            return bool(self._client.exists(WORKER))
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not say whether a worker is alive.") from error
