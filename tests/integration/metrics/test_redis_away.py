"""Metrics while Redis is unavailable, and the counts of that time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from tests.integration.metrics.scrape import ask, becomes, families, value
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("redis")
    with LiveServer(
        2, settings="tests.integration.metrics.settings", append_only=True, redis_folder=folder
    ) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


def test_counts_during_a_redis_outage_are_reported_afterwards(live: LiveServer) -> None:
    sample = {"tool": "test_simple_text", "outcome": "ok"}
    with closing(live.mcp(0)) as client:
        client.initialize()
        client.tool("test_simple_text")
        becomes(live, 1, "mcp_tool_calls_total", **sample)
        live.redis.stop()
        eventually(lambda: value(live, 0, "mcp_redis_up") == 0)
        found = families(ask(live).body)
        assert not {"mcp_tool_calls", "mcp_requests", "mcp_workers_seen"} & found.keys()
        assert found["mcp_database_up"].samples[0].value == 1
        for _ in range(3):
            assert "result" in client.tool("test_simple_text")
        live.redis.start()
        eventually(lambda: value(live, 1, "mcp_redis_up") == 1 == value(live, 0, "mcp_redis_up"))
        becomes(live, 4, "mcp_tool_calls_total", **sample)


def test_redis_without_info_lacks_only_the_memory_metric(live: LiveServer) -> None:
    with redis.Redis.from_url(live.redis.url, protocol=2) as operator:
        operator.execute_command("ACL", "SETUSER", "default", "-info")
        try:
            found = families(ask(live).body)
        finally:
            operator.execute_command("ACL", "SETUSER", "default", "+info")
    assert found["mcp_redis_up"].samples[0].value == 1
    assert "mcp_requests" in found
    assert "mcp_redis_memory_used_bytes" not in found
