"""Owns requests to clients that await an answer in Redis; must not know what is asked."""

from __future__ import annotations

import asyncio

from mcp_app.streams.base import BadName, Hub, SessionEnded, StreamLimits, StreamsUnavailable
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.keys import Channels, request_key, session_keys


class RedisRequests:
    """``base.RequestStore`` on Redis. The waiter is woken by the hub and looks by itself now and then."""

    def __init__(self, batch: Batch, hub: Hub, channels: Channels, limits: StreamLimits) -> None:
        self._batch, self._hub, self._channels, self._limits = batch, hub, channels, limits

    async def open(self, session: str, request_id: str, ttl: int) -> None:
        """See ``RequestStore.open``; raises SessionEnded."""
        keys = session_keys(session)
        opened = await self._batch.script(
            scripts.OPEN_REQUEST,
            [request_key(session, request_id), keys.members, keys.session],
            request_id,
            ttl,
            max(self._limits.session_ttl, ttl),
        )
        if not opened:
            raise SessionEnded("The session was ended.")

    async def answer(self, session: str, request_id: str, payload: bytes) -> bool:
        """See ``RequestStore.answer``."""
        try:
            keys = [request_key(session, request_id)]
        except BadName:  # the id is the client's
            return False
        return bool(
            await self._batch.script(
                scripts.ANSWER_REQUEST, keys, payload, self._channels.wake(session), _name(request_id)
            )
        )

    async def wait(self, session: str, request_id: str, timeout: float) -> bytes | None:  # noqa: ASYNC109
        """See ``RequestStore.wait``; while Redis is away it goes on waiting."""
        key = request_key(session, request_id)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        watch = self._hub.watch(session, _name(request_id))
        try:
            while True:
                watch.clear()
                value = await self._value(key)
                if value != b"?":
                    return value[1:] if value else None
                left = deadline - loop.time()
                if left <= 0:
                    return None
                await watch.wait(min(left, self._limits.slow_poll))
        finally:
            watch.close()

    async def _value(self, key: str) -> bytes | None:
        try:
            value: bytes | None = await self._batch.command("GET", key)
        except StreamsUnavailable:
            return b"?"
        return value

    async def drop(self, session: str, request_id: str) -> None:
        """See ``RequestStore.drop``."""
        await self._batch.many(
            [
                ("UNLINK", request_key(session, request_id)),
                ("ZREM", session_keys(session).members, f"request:{request_id}"),
                ("PUBLISH", self._channels.wake(session), _name(request_id)),
            ]
        )


def _name(request_id: str) -> str:
    return f"request:{request_id}"  # a colon: no stream is called like that
