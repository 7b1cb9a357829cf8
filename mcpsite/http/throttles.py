"""The cache for throttles. It is shared through Redis, but local to each process during an outage."""

from __future__ import annotations

from typing import Any

import orjson
from django.apps import AppConfig
from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from django.utils.connection import ConnectionProxy
from redis.exceptions import RedisError


class Json:
    """A JSON serializer. Django's own serializer would unpickle data from Redis (S19)."""

    def dumps(self, value: Any) -> bytes:
        """Encode the value of a throttle, which is a number or a list of times."""
        return orjson.dumps(value)

    def loads(self, stored: bytes) -> Any:
        """Decode a stored value. Return None for invalid JSON."""
        try:
            return orjson.loads(stored)
        except orjson.JSONDecodeError:
            return None


class ThrottleCache(RedisCache):
    """A cache with the methods ``get`` and ``set``, for the throttles of REST framework."""

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"serializer": Json, "socket_timeout": 2.0, "socket_connect_timeout": 1.0}
        super().__init__(server, {**params, "OPTIONS": options})
        self._alone = LocMemCache("throttles", params)

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        try:
            found = super().get(key, default, version)
        except RedisError:
            return self._alone.get(key, default, version)
        return default if found is None else found

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        try:
            super().set(key, value, timeout, version)
        except RedisError:
            self._alone.set(key, value, timeout, version)


class SiteConfig(AppConfig):
    """The ready-made project. The viewsets that it exposes share the counts of their throttles."""

    name = "mcpsite"

    def ready(self) -> None:
        """Make the shared cache the default for REST framework's throttles, and name the admin."""
        from django.contrib import admin
        from rest_framework.throttling import SimpleRateThrottle

        from mcp_app import conf

        admin.site.site_header = admin.site.site_title = conf.get().server.label
        admin.site.index_title = "Overview"

        throttle: Any = SimpleRateThrottle
        throttle.cache = ConnectionProxy(caches, "throttles")
