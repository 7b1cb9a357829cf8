"""Owns the queue of log batches from the processes that write to the one that stores; must not read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from mcp_app import conf
from mcp_app.streams.base import StreamLimits, StreamsFull, StreamsUnavailable
from mcp_app.streams.batch import Batch
from mcp_app.streams.client import sync_client
from mcp_app.streams.keys import MESSAGES

Batches = Sequence[tuple[str, bytes]]


class RedisMessages:
    """``base.MessageQueue`` on one Redis stream."""

    def __init__(self, batch: Batch, limits: StreamLimits) -> None:
        self._batch, self._limits = batch, limits

    async def push(self, batch: bytes) -> None:
        """See ``MessageQueue.push``."""
        check_size(batch, self._limits)
        # Without a worker the queue would take all of Redis' memory, and what is lost would not be counted.
        if await self.depth() >= self._limits.log_batches:
            raise StreamsFull("The message log waits for a worker to write it.")
        await self._batch.many(
            [("XADD", MESSAGES, "*", "b", batch), ("EXPIRE", MESSAGES, self._limits.log_ttl)]
        )

    async def read(self, after_id: str, count: int) -> Batches:
        """See ``MessageQueue.read``."""
        after = f"({after_id or 0}"
        entries = await self._batch.command("XRANGE", MESSAGES, after, "+", "COUNT", count)
        return [(entry.decode(), fields[1]) for entry, fields in entries]

    async def trim(self, through_id: str) -> None:
        """See ``MessageQueue.trim``."""
        await self._batch.command("XTRIM", MESSAGES, "MINID", "=", _next(through_id))

    async def depth(self) -> int:
        """See ``MessageQueue.depth``."""
        return int(await self._batch.command("XLEN", MESSAGES))


class SyncMessageQueue:
    """The reading end for threads and workers without an event loop. Raises StreamsUnavailable."""

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    @classmethod
    def connect(cls) -> SyncMessageQueue:
        """The queue of the Redis named in the settings."""
        return cls(conf.get().redis_url)

    def read(self, after_id: str, count: int) -> Batches:
        """Up to ``count`` batches after an id ("0" is the beginning), oldest first."""
        entries: Any = self._ask(lambda: self._client.xrange(MESSAGES, min=f"({after_id or 0}", count=count))
        return [(entry.decode(), fields[b"b"]) for entry, fields in entries]

    def trim(self, through_id: str) -> None:
        """Forget the batches up to and including an id."""
        self._ask(lambda: self._client.xtrim(MESSAGES, minid=_next(through_id), approximate=False))

    def depth(self) -> int:
        """How many batches wait."""
        return int(self._ask(lambda: self._client.xlen(MESSAGES)))

    def waiting(self) -> tuple[int, float]:
        """How many batches wait, and for how many seconds the oldest one has."""
        waiting = self.depth()
        oldest = self.read("0", 1) if waiting else ()
        if not oldest:
            return 0, 0.0
        return waiting, max(time.time() - int(oldest[0][0].partition("-")[0]) / 1000, 0.0)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, command: Callable[[], Any]) -> Any:
        try:
            return command()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis is away: {type(error).__name__}.") from error


def check_size(batch: bytes, limits: StreamLimits) -> None:
    """Refuse a batch that is too large; raises ValueError."""
    if len(batch) > limits.log_batch_bytes:
        raise ValueError(f"A log batch has at most {limits.log_batch_bytes} bytes, not {len(batch)}.")


def _next(entry_id: str) -> str:
    """The smallest entry id after one."""
    time, _, sequence = entry_id.partition("-")
    return f"{time}-{int(sequence or 0) + 1}"
