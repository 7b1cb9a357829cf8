"""The last report of each active process."""

from __future__ import annotations

from typing import Any

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import sync_client
from mcp_app.streams.connections.keys import FIGURES
from mcp_app.streams.stores.metrics import LIFE_SECONDS


class ProcessReports:
    """A reader for the reports in ``base.MetricsStore``, without an event loop. Thread-safe."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def read(self) -> list[bytes]:
        """Return the last reported state of each active process. Raise StreamsUnavailable."""
        _, _, reports, processes = FIGURES
        try:
            now: Any = self._client.time()
            living: Any = self._client.zrangebyscore(processes, now[0] - LIFE_SECONDS, "+inf")
            found: Any = self._client.hmget(reports, living) if living else []
        except redis.RedisError as error:
            raise StreamsUnavailable("Redis does not say which processes run.") from error
        return [report.partition(b" ")[2] for report in found if report is not None]
