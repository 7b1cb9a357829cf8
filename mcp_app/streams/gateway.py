"""The class ``Streams``, which contains all streams and stores of one process."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from mcp_app.conf import Settings
from mcp_app.streams.base import (
    EventLog,
    Hub,
    LimitStore,
    MessageQueue,
    MessageTail,
    MetricsStore,
    RequestStore,
    SessionStore,
    StorageQuota,
    StreamLimits,
    StreamsError,
    StreamsFull,
    StreamsUnavailable,
    Windows,
)
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.client import RedisAddress
from mcp_app.streams.connections.keys import HEALTH, Channels
from mcp_app.streams.hub import RedisHub
from mcp_app.streams.reader import Reader
from mcp_app.streams.stores.limits import MemoryLimits, RedisLimits
from mcp_app.streams.stores.memory import Clock, MemoryHub, MemoryLog
from mcp_app.streams.stores.memory_stores import (
    MemoryMessages,
    MemoryRequests,
    MemorySessions,
    MemoryTail,
    MemoryWindows,
)
from mcp_app.streams.stores.message_queue import RedisMessages, RedisTail
from mcp_app.streams.stores.metrics import MemoryMetrics, RedisMetrics
from mcp_app.streams.stores.redis_log import RedisLog
from mcp_app.streams.stores.request_store import RedisRequests
from mcp_app.streams.stores.session_store import RedisSessions
from mcp_app.streams.stores.storage_quota import RedisStorageQuota
from mcp_app.streams.stores.windows import RedisWindows


@dataclass(slots=True)
class Streams:
    """The event streams and stores of one process, for the event loop on which it is started.

    ``start`` returns after the first attempt to connect, even if it failed. Attempts continue in the
    background. Until one succeeds, every method raises StreamsUnavailable at once.
    """

    log: EventLog
    quota: StorageQuota
    hub: Hub
    sessions: SessionStore
    requests: RequestStore
    windows: Windows
    rules: LimitStore
    messages: MessageQueue
    tail: MessageTail
    metrics: MetricsStore
    limits: StreamLimits
    _batch: Batch | None = None
    _redis_hub: RedisHub | None = None

    @classmethod
    def connect(cls, url: str, limits: StreamLimits | Settings | None = None) -> Streams:
        """Build streams for a redis://, rediss:// or unix:// URL without I/O.

        Raise ValueError for other URLs.
        """
        limits = limits_of(limits)
        endpoint = RedisAddress.parse(url)
        batch, channels = Batch(endpoint), Channels(endpoint.database)
        quota = RedisStorageQuota(batch, limits)
        log = RedisLog(batch, channels, quota, limits)
        hub = RedisHub(url, batch, channels, log.heads, slow_poll=limits.slow_poll)
        # Let readers try again as soon as Redis is back.
        batch.on_up = hub.watchers.wake_all
        batch.on_close = quota.send_pending
        return cls(
            log=log,
            hub=hub,
            quota=quota,
            sessions=RedisSessions(batch, channels, quota, limits),
            requests=RedisRequests(batch, hub, channels, limits),
            windows=RedisWindows(batch),
            rules=RedisLimits(batch),
            messages=RedisMessages(batch, limits),
            tail=RedisTail(url, batch),
            metrics=RedisMetrics(batch),
            limits=limits,
            _batch=batch,
            _redis_hub=hub,
        )

    @classmethod
    def in_memory(
        cls, limits: StreamLimits | Settings | None = None, *, clock: Clock = time.monotonic
    ) -> Streams:
        """Build streams for a single process. They behave as on Redis, but are lost when the process ends."""
        limits = limits_of(limits)
        hub = MemoryHub()
        windows = MemoryWindows(clock=clock)
        sessions = MemorySessions(hub, limits, windows, clock=clock)
        log = MemoryLog(
            hub,
            limits,
            is_ended=sessions.is_ended,
            principal_of=sessions.principal_of,
            tombstones_of=sessions.tombstones_of,
            set_fields=sessions.set_fields,
            clock=clock,
        )
        requests = MemoryRequests(hub, is_ended=sessions.is_ended, clock=clock)
        sessions.on_end = (log.drop_session, requests.drop_session)
        messages = MemoryMessages(limits)
        return cls(
            log=log,
            quota=log,
            hub=hub,
            sessions=sessions,
            requests=requests,
            windows=windows,
            rules=MemoryLimits(clock=clock),
            messages=messages,
            tail=MemoryTail(messages),
            metrics=MemoryMetrics(),
            limits=limits,
        )

    async def start(self) -> None:
        """Connect. Call this on the event loop that will use the streams."""
        if self._batch is not None and self._redis_hub is not None:
            await asyncio.gather(self._batch.start(), self._redis_hub.start())
        elif isinstance(self.hub, MemoryHub):
            self.hub.start()

    async def close(self) -> None:
        """Disconnect. Readers are woken once more, and later commands raise StreamsUnavailable."""
        await self.tail.close()
        if self._redis_hub is not None:
            await self._redis_hub.close()
        if self._batch is not None:
            await self._batch.close()

    async def healthy(self) -> bool:
        """Return True if Redis answers, accepts writes and sends wake-ups. A full Redis is not healthy."""
        if self._batch is None or self._redis_hub is None:
            return True
        try:
            # A write, because a Redis that cannot write to its disk still answers a ping.
            await self._batch.command("SET", HEALTH, "1", "EX", 60)
        except StreamsError:
            return False
        return self._redis_hub.is_up

    async def full(self) -> bool:
        """Return True if Redis has no memory left for writes.

        New work is then refused, and accepted work continues.
        """
        if self._batch is None:
            return False
        try:
            await self._batch.command("SET", HEALTH, "1", "EX", 60)
        except StreamsFull:
            return True
        except StreamsError:
            return False
        return False

    async def push(self, key: str, message: str) -> None:
        """Prepend a message to a Redis list. Raise StreamsError."""
        if self._batch is None:
            raise StreamsUnavailable("There is no Redis.")
        await self._batch.command("LPUSH", key, message)

    def reader(self, session: str, stream: str, epoch: int, after: int) -> Reader:
        """Return a reader of a stream after an offset. The caller must close it."""
        return Reader(self.log, self.hub, session, stream, epoch, after)


def limits_of(given: StreamLimits | Settings | None) -> StreamLimits:
    """Return the stream limits in the settings. For None, return the defaults."""
    if isinstance(given, StreamLimits):
        return given
    if given is None:
        return StreamLimits()
    return StreamLimits(
        events=given.max_stream_events,
        event_bytes=given.max_stream_bytes,
        ttl=given.stream_ttl_seconds,
        session_ttl=given.session_max_seconds,
        slow_poll=given.slow_poll_seconds,
        kept_bytes=given.max_kept_bytes_per_principal,
        kept_percent=given.max_kept_percent_per_principal,
        full_percent=given.max_kept_percent,
    )
