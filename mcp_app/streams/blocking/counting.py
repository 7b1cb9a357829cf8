"""Rate windows shared by all processes, without an event loop."""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import Any

import redis

from mcp_app import conf
from mcp_app.protocol.rate_window import RateWindow
from mcp_app.streams.connections import scripts
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import window_key

# After a timeout, this process does without Redis for this time. Otherwise it would wait at every event.
AWAY_SECONDS = 5.0

log = logging.getLogger(__name__)


def count(key: str, limit: int, seconds: float) -> float:
    """Count an event in a fixed window. Return 0.0 up to ``limit`` events, else the seconds to wait.

    Without Redis, and while Redis is unreachable, each process counts only its own events.
    """
    url = conf.get().redis_url
    if url and not _own.redis_is_away():
        try:
            return _counted(url, key, limit, seconds)
        except redis.RedisError as error:
            log.warning("Redis is unavailable, each process counts on its own: %s", type(error).__name__)
            _own.redis_went_away()
    return _own.count(key, limit, seconds)


def _counted(url: str, key: str, limit: int, seconds: float) -> float:
    client, name = _client(url), window_key(key)
    if client.eval(scripts.HIT.source, 1, name, str(limit), str(round(seconds * 1000))):
        return 0.0
    left: Any = client.pttl(name)
    return max(int(left), 1) / 1000


@lru_cache(maxsize=2)
def _client(url: str) -> redis.Redis:
    return sync_client(url)


class OwnCounts:
    """The windows of one process, used without Redis. Thread-safe."""

    def __init__(self) -> None:
        self._windows = RateWindow()
        self._away_until = 0.0
        self._lock = threading.Lock()

    def count(self, key: str, limit: int, seconds: float) -> float:
        """Count an event as the module's ``count`` does, but only in this process."""
        with self._lock:
            counted, rest = self._windows.hit(key, time.monotonic(), seconds)
        return 0.0 if counted <= limit else rest

    def redis_went_away(self) -> None:
        """Do without Redis for AWAY_SECONDS."""
        self._away_until = time.monotonic() + AWAY_SECONDS

    def redis_is_away(self) -> bool:
        """Return True as long as this process does without Redis."""
        return time.monotonic() < self._away_until


_own = OwnCounts()
