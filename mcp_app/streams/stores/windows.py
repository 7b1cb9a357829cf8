"""Rate counters and places that all processes share, on Redis."""

from __future__ import annotations

from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.batch import Batch
from mcp_app.streams.connections.keys import places_key, window_key


class RedisWindows:
    """An implementation of ``base.Windows`` on Redis."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    async def hit(self, key: str, limit: int, seconds: float) -> bool:
        return bool(await self._batch.script(scripts.HIT, [window_key(key)], limit, _milliseconds(seconds)))

    async def acquire(self, key: str, holder: str, limit: int, seconds: float) -> bool:
        return bool(
            await self._batch.script(
                scripts.ACQUIRE, [places_key(key)], holder, limit, _milliseconds(seconds)
            )
        )

    async def release(self, key: str, holder: str) -> None:
        await self._batch.command("ZREM", places_key(key), holder)

    async def held(self, key: str) -> int:
        return int(await self._batch.script(scripts.HELD, [places_key(key)]))

    async def holders(self, key: str) -> list[str]:
        found = await self._batch.command("ZRANGE", places_key(key), 0, -1)
        return [each.decode() for each in found]


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
