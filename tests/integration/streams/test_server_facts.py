"""Facts about the Redis server."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from mcp_app.streams import StreamsUnavailable
from mcp_app.streams.blocking.server_facts import OLDEST, RedisServerView, ServerFacts
from mcpsite import redis_server
from mcpsite.redis_server import Program, RedisServer


def test_server_facts_have_version_memory_policy_and_persistence(redis_url: str) -> None:
    facts = RedisServerView(redis_url).facts()
    assert facts.version >= OLDEST
    assert 0 < (facts.used_memory or 0) < (facts.max_memory or 0)
    assert (facts.policy, facts.append_only) == ("noeviction", False)


def test_server_without_info_returns_unknown_facts(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, program=Program("fakeredis", ""))
    try:
        facts = RedisServerView(server.start()).facts()
    finally:
        server.stop()
    assert facts == ServerFacts((), None, None, None, None)


def test_clock_skew_and_round_trip_are_measured(redis_url: str) -> None:
    assert abs(RedisServerView(redis_url).skew()) < 1
    assert 0 < RedisServerView(redis_url).round_trip() < 1


@pytest.mark.parametrize("look", ["facts", "skew", "round_trip"])
def test_unavailable_server_error_hides_the_password(look: str) -> None:
    view = RedisServerView("redis://:hunter2@127.0.0.1:1/0")
    with pytest.raises(StreamsUnavailable) as caught:
        getattr(view, look)()
    assert "hunter2" not in str(caught.value)


def test_doctor_and_embedded_redis_agree_on_the_oldest_version() -> None:
    assert OLDEST == redis_server.OLDEST


def test_wrong_password_raises_streams_unavailable(redis_url: str) -> None:
    port = redis.connection.parse_url(redis_url)["port"]
    with pytest.raises(StreamsUnavailable):
        RedisServerView(f"redis://:wrong@127.0.0.1:{port}/0").facts()
