"""Redis checks: faults planted in a real server are found with a remedy."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import redis as redis_py
from pytest_django.fixtures import Settings as DjangoSettings

from mcp_app.doctor import Installation, Level, redis
from mcp_app.doctor.examination import Check
from mcp_app.streams.blocking import projects
from mcp_app.streams.blocking.server_facts import RedisServerView


@pytest.fixture
def configured(clean_redis: str) -> Iterator[redis_py.Redis]:
    """Yield a client of the real Redis; restore its configuration afterwards."""
    names = ("maxmemory", "maxmemory-policy", "appendonly")
    with redis_py.Redis.from_url(clean_redis, protocol=2, decode_responses=True) as client:
        before = {name: client.config_get(name)[name] for name in names}
        yield client
        for name, value in before.items():
            client.config_set(name, value)


@pytest.mark.parametrize(
    ("check", "planted", "level"),
    [
        (redis.policy, {"maxmemory-policy": "noeviction"}, Level.OK),
        (redis.policy, {"maxmemory-policy": "allkeys-lru"}, Level.ERROR),
        (redis.memory, {"maxmemory": "256mb"}, Level.OK),
        (redis.memory, {"maxmemory": "0"}, Level.WARNING),
        (redis.append_only, {"appendonly": "no"}, Level.WARNING),
        (redis.append_only, {"appendonly": "yes"}, Level.OK),
        (redis.version, {}, Level.OK),
        (redis.clock, {}, Level.OK),
        (redis.reachable, {}, Level.OK),
        (redis.alone, {}, Level.OK),
    ],
)
def test_redis_configuration_finding_has_level_and_remedy(
    configured: redis_py.Redis, redis_url: str, check: Check, planted: dict[str, str], level: Level
) -> None:
    for name, value in planted.items():
        configured.config_set(name, value)
    (found,) = check(Installation(redis_url=redis_url))
    assert found.level == level
    assert bool(found.remedy) == (level != Level.OK)


def test_nearly_full_redis_is_warning(configured: redis_py.Redis, redis_url: str) -> None:
    used = RedisServerView(redis_url).facts().used_memory or 0
    configured.config_set("maxmemory", used + used // 10)
    (found,) = redis.memory(Installation(redis_url=redis_url))
    assert (found.level, "Raise maxmemory" in found.remedy) == (Level.WARNING, True)


def test_silent_redis_is_error_without_password() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://:hunter2@127.0.0.1:{silent.getsockname()[1]}/0"
        (found,) = redis.reachable(Installation(redis_url=url))
    assert found.level == Level.ERROR
    assert "REDIS_URL" in found.remedy
    assert "hunter2" not in found.text


def test_missing_redis_url_skips_check() -> None:
    (found,) = redis.reachable(Installation())
    assert (found.level, "REDIS_URL" in found.remedy) == (Level.SKIPPED, True)


def test_shared_redis_database_is_error_but_rotated_secret_key_is_not(
    clean_redis: str, settings: DjangoSettings
) -> None:
    settings.SECRET_KEY = "the first project signs with this key"
    assert projects.register(clean_redis) == 0
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "its next key", [settings.SECRET_KEY]
    assert projects.register(clean_redis) == 0
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another project signs with this key", []
    assert projects.register(clean_redis) == 2
    (found,) = redis.alone(Installation(redis_url=clean_redis))
    assert (found.level, "REDIS_URL" in found.remedy) == (Level.ERROR, True)
