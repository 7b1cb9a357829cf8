"""Heartbeats of workers, stored in two keys that expire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import WORKER, WORKERS

LIFE_SECONDS = 15


@dataclass(frozen=True, slots=True)
class LiveWorker:
    """A worker that sent a heartbeat within the last LIFE_SECONDS, and the queues that it serves."""

    name: str
    queues: tuple[str, ...]


class Presence:
    """The heartbeats that workers sent within the last LIFE_SECONDS. Thread-safe."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def renew(self, name: str = "worker", queues: Iterable[str] = ()) -> None:
        """Record a worker's heartbeat. Raise StreamsUnavailable."""
        try:
            now = self._now()
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.set(WORKER, b"1", ex=LIFE_SECONDS)
                pipeline.zadd(WORKERS, {f"{name[:120]} {','.join(queues)}": now})
                pipeline.zremrangebyscore(WORKERS, "-inf", now - LIFE_SECONDS)
                pipeline.expire(WORKERS, LIFE_SECONDS)
                pipeline.execute()
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not take the sign of life of this worker.") from error

    def _now(self) -> float:
        # The clock of Redis, because the clocks of worker and web machines may differ.
        seconds, micros = self._client.time()
        return int(seconds) + int(micros) / 1e6

    def seen(self) -> bool:
        """Return True if a worker is alive. Raise StreamsUnavailable."""
        try:
            return bool(self._client.exists(WORKER))
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not say whether a worker is alive.") from error

    def workers(self) -> list[LiveWorker]:
        """Return the active workers in the order of their names. Raise StreamsUnavailable."""
        try:
            since = self._now() - LIFE_SECONDS
            found: list[bytes] = self._client.zrangebyscore(WORKERS, since, "+inf")  # type: ignore[assignment]
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not say which workers are alive.") from error
        parts = sorted(member.decode("utf-8", "replace").rpartition(" ") for member in found)
        return [LiveWorker(name, tuple(filter(None, queues.split(",")))) for name, _, queues in parts]
