"""Values that all processes share for a limited time, and a lock over processes, without an event loop.

Without Redis, and while Redis is unreachable, nothing is shared: ``get`` finds nothing and every lock is
free.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

import redis

from mcp_app import conf
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import places_key, shared_key

log = logging.getLogger(__name__)


@lru_cache(maxsize=2)
def _client(url: str) -> redis.Redis:
    return sync_client(url)


def get(name: str) -> bytes | None:
    """Return a shared value, or None if there is none."""
    found: Any = _run(lambda client: client.get(shared_key(name)))
    return found if isinstance(found, bytes) else None


def put(name: str, value: bytes, seconds: float) -> None:
    """Share a value for ``seconds``."""
    _run(lambda client: client.set(shared_key(name), value, px=max(1, round(seconds * 1000))))


def drop(name: str) -> None:
    """Stop sharing a value."""
    _run(lambda client: client.delete(shared_key(name)))


def acquire(name: str, holder: str, seconds: float) -> bool:
    """Take a lock for at most ``seconds``. Return False if another holder has it."""
    arguments = (holder, "1", str(round(seconds * 1000)))
    taken = _run(lambda client: client.eval(scripts.ACQUIRE.source, 1, places_key(name), *arguments))
    return taken is None or bool(taken)


def release(name: str, holder: str) -> None:
    """Release a lock. Idempotent."""
    _run(lambda client: client.zrem(places_key(name), holder))


def _run(command: Any) -> Any:
    url = conf.get().redis_url
    if not url:
        return None
    try:
        return command(_client(url))
    except redis.RedisError as error:
        log.warning("Redis is unavailable, a value is not shared: %s", type(error).__name__)
        return None
