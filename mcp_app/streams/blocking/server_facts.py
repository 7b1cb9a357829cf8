"""Facts about the Redis server: version, memory, persistence, clock."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import redis

from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.connections.client import CLUSTER, CLUSTER_REMEDY, sync_client

# The oldest supported version; commands and scripts use nothing newer.
OLDEST = (6, 2)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Values of INFO; missing values are None or (). ``max_memory`` 0 means no limit, sizes are in bytes."""

    version: tuple[int, ...]
    used_memory: int | None
    max_memory: int | None
    policy: str | None
    append_only: bool | None
    cluster: bool | None = None


class RedisServerView:
    """A read-only view of one Redis server that works on hosted servers, too (no CONFIG)."""

    __slots__ = ("_client",)

    def __init__(self, url: str) -> None:
        self._client = sync_client(url)

    def round_trip(self) -> float:
        """Return the seconds of one PING on an open connection. Raise StreamsUnavailable."""
        try:
            self._client.ping()
            begun = time.perf_counter()
            self._client.ping()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis does not answer: {error}") from error
        return time.perf_counter() - begun

    def skew(self) -> float:
        """Return the seconds by which the server's clock is ahead of ours. Raise StreamsUnavailable."""
        try:
            self._client.ping()
            before = time.time()
            seconds, micros = self._client.time()
        except redis.RedisError as error:
            raise StreamsUnavailable(f"Redis did not return its time: {error}") from error
        return float(int(seconds) + int(micros) / 1e6 - (before + time.time()) / 2)

    def facts(self) -> ServerFacts:
        """Return the server's INFO. Raise StreamsUnavailable."""
        try:
            info: dict[str, Any] = self._client.info()
        except redis.ResponseError as error:
            # Redis answers, but has no INFO (fakeredis) or forbids it. A cluster has database 0 only.
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
    """Return the refusal of a Redis Cluster with its remedy; empty for other servers and without one."""
    if not url:
        return ""
    try:
        facts = RedisServerView(url).facts()
    except StreamsUnavailable:
        return ""
    return f"{CLUSTER}. {CLUSTER_REMEDY}" if facts.cluster else ""
