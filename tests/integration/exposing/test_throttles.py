"""Throttles of exposed viewsets count over all processes of the ready-made project."""

from __future__ import annotations

from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.test import RequestFactory
from rest_framework.throttling import SimpleRateThrottle

from mcpsite.http.throttles import ThrottleCache

RATE = 5


class Throttle(SimpleRateThrottle):
    """A throttle with one count for all callers."""

    rate = f"{RATE}/min"

    def get_cache_key(self, request: Any, view: Any) -> str:
        return "everybody"


def process(url: str) -> type[Throttle]:
    """Return the throttle of another process, with a separate connection."""
    return type("Throttle", (Throttle,), {"cache": ThrottleCache(url, {"KEY_PREFIX": "mcp:throttle"})})


def allowed(kind: type[Throttle], times: int) -> int:
    return sum(kind().allow_request(RequestFactory().get("/"), None) for _ in range(times))


def test_two_processes_share_one_throttle(clean_redis: str) -> None:
    """Each process had counted alone, so two processes admitted twice as many requests."""
    first, second = process(clean_redis), process(clean_redis)
    assert allowed(first, RATE - 2) + allowed(second, RATE) + allowed(first, RATE) == RATE


def test_process_throttles_alone_without_redis() -> None:
    LocMemCache("throttles", {}).clear()
    assert allowed(process("redis://127.0.0.1:1/0"), 2 * RATE) == RATE


def test_pickle_in_redis_is_not_loaded(clean_redis: str) -> None:
    """Write access to Redis must not allow code execution (S19)."""
    import redis

    cache = ThrottleCache(clean_redis, {})
    with redis.Redis.from_url(clean_redis) as client:
        client.set(cache.make_key("everybody"), b"cos\nsystem\n(S'true'\ntR.")
    assert cache.get("everybody", []) == []


def test_throttles_of_this_project_use_the_shared_cache(settings: Any) -> None:
    assert SimpleRateThrottle.cache._alias == "throttles"
    assert settings.CACHES.keys() == {"default", "throttles"}
