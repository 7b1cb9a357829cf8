"""Requests to clients that await their answers, stored in Redis."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mcp_app.streams.base import BadName, Hub, SessionEnded, StreamLimits, StreamsUnavailable
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.keys import Channels, request_keys


class RedisRequests:
    """An implementation of ``base.RequestStore`` on Redis.

    The hub wakes the waiter, which also polls slowly.
    """

    def __init__(self, batch: Batch, hub: Hub, channels: Channels, limits: StreamLimits) -> None:
        self._batch, self._hub, self._channels, self._limits = batch, hub, channels, limits

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """Expect an answer. Raise SessionEnded."""
        keys, index_ttl = request_keys(session, request_id), max(self._limits.session_ttl, ttl)
        opened = await self._batch.script(
            scripts.OPEN_REQUEST, [keys.request, keys.members, keys.session], request_id, ttl, index_ttl
        )
        if not opened:
            raise SessionEnded("The session was ended.")

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        try:
            keys = request_keys(session, request_id)
        except BadName:  # clients choose the id, so it may be invalid
            return False
        channel = self._channels.wake + session
        return bool(
            await self._batch.script(scripts.ANSWER_REQUEST, [keys.request], payload, channel, keys.name)
        )

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        """Wait as ``RequestStore.wait`` does. Continue to wait while Redis is unreachable."""
        keys = request_keys(session, request_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        watch = self._hub.watch(session, keys.name)
        try:
            while True:
                watch.news = False
                value: bytes | None = b"?"
                with suppress(StreamsUnavailable):
                    value = await self._batch.command("GET", keys.request)
                if value != b"?":
                    return value[1:] if value else None
                left = deadline - loop.time()
                if left <= 0:
                    return None
                await watch.wait(min(left, self._limits.slow_poll))
        finally:
            watch.close()

    async def drop(self, session: str, request_id: str) -> None:
        keys = request_keys(session, request_id)
        await self._batch.many(
            [
                ("UNLINK", keys.request),
                ("ZREM", keys.members, keys.name),
                ("PUBLISH", self._channels.wake + session, keys.name),
            ]
        )
