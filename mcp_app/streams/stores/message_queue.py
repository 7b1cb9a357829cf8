"""The queue of log batches between the processes that log messages and the process that stores them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import redis
import redis.asyncio

from mcp_app import conf
from mcp_app.streams.base import StreamLimits, StreamsError, StreamsFull, StreamsUnavailable
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.client import TIMEOUT, async_client, sync_client
from mcp_app.streams.connections.keys import MESSAGES
from mcp_app.streams.stores.storage_quota import memory_or_zero

Batches = Sequence[tuple[str, bytes]]
# This number of batches fits into any Redis, so their size need not be queried.
FEW = 8
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


class RedisMessages:
    """An implementation of ``base.MessageQueue`` with one Redis stream."""

    def __init__(self, batch: Batch, limits: StreamLimits) -> None:
        self._batch, self._limits = batch, limits

    async def push(self, batch: bytes) -> None:
        check_size(batch, self._limits)
        # Checked first: without a worker the queue would fill Redis, and lost batches would not be counted.
        if await self.full():
            raise StreamsFull("The message log waits for a worker to write it.")
        await self._batch.many(
            [("XADD", MESSAGES, "*", "b", batch), ("EXPIRE", MESSAGES, self._limits.log_ttl)]
        )

    async def read(self, after_id: str, count: int) -> Batches:
        after = f"({after_id or 0}"
        entries = await self._batch.command("XRANGE", MESSAGES, after, "+", "COUNT", count)
        return [(entry.decode(), fields[1]) for entry, fields in entries]

    async def trim(self, through_id: str) -> None:
        await self._batch.command("XTRIM", MESSAGES, "MINID", "=", _next(through_id))

    async def depth(self) -> int:
        return int(await self._batch.command("XLEN", MESSAGES))

    async def full(self) -> bool:
        waiting = await self.depth()
        if waiting >= self._limits.log_batches:
            return True
        return waiting >= FEW and await self._share_is_used()

    async def _share_is_used(self) -> bool:
        # One caller with long messages must not fill Redis, which would block all other callers (R31).
        _, most = await memory_or_zero(self._batch)
        if not most:
            return False
        try:
            # SAMPLES 0 measures every entry. The size of a few entries would not be representative.
            used = await self._batch.command("MEMORY", "USAGE", MESSAGES, "SAMPLES", 0)
        except StreamsUnavailable:
            raise
        except StreamsError:
            return False  # Redis does not know the command or forbids it.
        return int(used or 0) * 100 >= most * self._limits.log_percent


class RedisTail:
    """An implementation of ``base.MessageTail`` whose own connection blocks until the next batch."""

    def __init__(self, url: str, batch: Batch) -> None:
        self._url, self._batch = url, batch
        self._client: redis.asyncio.Redis | None = None

    async def newest(self) -> str:
        try:
            facts = await self._batch.command("XINFO", "STREAM", MESSAGES)
        except StreamsUnavailable:
            raise
        except StreamsError:
            return "0-0"  # The stream does not exist yet.
        named = dict(zip(facts[::2], facts[1::2], strict=True))
        newest: bytes = named[b"last-generated-id"]
        return newest.decode()

    async def after(self, batch_id: str, count: int, seconds: float) -> Batches:
        if self._client is None:
            self._client = async_client(self._url, blocking=True)
        block = max(1, int(seconds * 1000))
        try:
            # The timeout also covers connections that were cut silently. wait_for is not used, because in
            # Python 3.11 it loses a cancellation that arrives together with the answer.
            async with asyncio.timeout(seconds + TIMEOUT):
                found: Any = await self._client.xread({MESSAGES: batch_id}, count=count, block=block)
        except (redis.RedisError, TimeoutError) as error:
            await self.close()
            raise StreamsUnavailable(f"Redis is unavailable: {type(error).__name__}.") from error
        return [(entry.decode(), fields[b"b"]) for _, entries in found or () for entry, fields in entries]

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(redis.RedisError, OSError):
                await client.aclose()


class SyncMessageQueue:
    """The reading side of the queue for threads and workers without an event loop.

    Raises StreamsUnavailable.
    """

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    @classmethod
    def connect(cls) -> SyncMessageQueue:
        """Return the queue on the Redis that the settings name."""
        return cls(conf.get().redis_url)

    def read(self, after_id: str, count: int) -> Batches:
        """Return up to ``count`` batches after an id ("0" for the start), oldest first."""
        entries: Any = self._ask(lambda: self._client.xrange(MESSAGES, min=f"({after_id or 0}", count=count))
        return [(entry.decode(), fields[b"b"]) for entry, fields in entries]

    def newest(self, count: int) -> Batches:
        """Return the last ``count`` pending batches, oldest first."""
        entries: Any = self._ask(lambda: self._client.xrevrange(MESSAGES, count=count))
        return [(entry.decode(), fields[b"b"]) for entry, fields in reversed(entries)]

    def one(self, batch_id: str) -> bytes | None:
        """Return the pending batch with this id, or None. Raise ValueError for a malformed id."""
        if not _ID.fullmatch(batch_id):
            raise ValueError("An id of a log batch is two numbers with a hyphen between them.")
        entries: Any = self._ask(lambda: self._client.xrange(MESSAGES, min=batch_id, max=batch_id))
        return entries[0][1][b"b"] if entries else None

    def trim(self, through_id: str) -> None:
        """Delete the batches up to and including an id."""
        self._ask(lambda: self._client.xtrim(MESSAGES, minid=_next(through_id), approximate=False))

    def depth(self) -> int:
        """Return the number of pending batches."""
        return int(self._ask(lambda: self._client.xlen(MESSAGES)))

    def waiting(self) -> tuple[int, float]:
        """Return the number of pending batches, and the age of the oldest batch in seconds."""
        waiting = self.depth()
        oldest = self.read("0", 1) if waiting else ()
        if not oldest:
            return 0, 0.0
        # The id contains a time of Redis' clock, so it must be compared with that clock.
        now: Any = self._ask(self._client.time)
        return waiting, max(now[0] + now[1] / 1e6 - int(oldest[0][0].partition("-")[0]) / 1000, 0.0)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _ask(self, command: Callable[[], Any]) -> Any:
        try:
            return command()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis is unavailable: {type(error).__name__}.") from error


def check_size(batch: bytes, limits: StreamLimits) -> None:
    """Raise ValueError if a batch is too large."""
    if len(batch) > limits.log_batch_bytes:
        raise ValueError(f"A log batch has at most {limits.log_batch_bytes} bytes, not {len(batch)}.")


def _next(entry_id: str) -> str:
    """Return the smallest entry id after ``entry_id``."""
    time, _, sequence = entry_id.partition("-")
    return f"{time}-{int(sequence or 0) + 1}"
