"""Facts about the Redis server: its version, memory, persistence and clock."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import CLUSTER, CLUSTER_REMEDY, sync_client

# The oldest supported version. All commands and scripts work with it.
OLDEST = (6, 2)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Values from INFO. A missing value is None or ().

    Sizes are in bytes. ``max_memory`` 0: no limit.
    """

    version: tuple[int, ...]
    used_memory: int | None
    max_memory: int | None
    policy: str | None
    append_only: bool | None
    cluster: bool | None = None


class RedisServerView:
    """A read-only view of one Redis server. It does not use CONFIG, so it works on hosted servers as well."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def round_trip(self) -> float:
        """Return the duration of one PING on an open connection, in seconds. Raise StreamsUnavailable."""
        try:
            self._client.ping()
            started = time.perf_counter()
            self._client.ping()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis does not answer: {error}") from error
        return time.perf_counter() - started

    def skew(self) -> float:
        """Return by how many seconds the server's clock is ahead of this machine's.

        Raise StreamsUnavailable.
        """
        try:
            self._client.ping()
            before = time.time()
            seconds, micros = self._client.time()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis did not return its time: {error}") from error
        return float(int(seconds) + int(micros) / 1e6 - (before + time.time()) / 2)

    def facts(self) -> ServerFacts:
        """Return the facts from the server's INFO. Raise StreamsUnavailable."""
        try:
            info: dict[str, Any] = self._client.info()
        except redis.ResponseError as error:
            # Redis has no INFO (fakeredis), forbids it, or is a cluster, which has only database 0.
            info = {"cluster_enabled": 1} if "cluster mode" in str(error) else {}
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis did not return its INFO: {error}") from error
        append_only, cluster = info.get("aof_enabled"), info.get("cluster_enabled")
        return ServerFacts(
            version=tuple(int(part) for part in re.findall(r"\d+", str(info.get("redis_version", "")))[:3]),
            used_memory=info.get("used_memory"),
            max_memory=info.get("maxmemory"),
            policy=info.get("maxmemory_policy"),
            append_only=None if append_only is None else bool(append_only),
            cluster=None if cluster is None else bool(cluster),
        )


def cluster_fault(url: str) -> str:
    """Return an error with its remedy if ``url`` is a Redis Cluster. Return "" for any other or no server."""
    if not url:
        return ""
    try:
        facts = RedisServerView(url).facts()
    except StreamsUnavailable:
        return ""
    return f"{CLUSTER}. {CLUSTER_REMEDY}" if facts.cluster else ""
