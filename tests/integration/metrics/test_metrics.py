"""Metrics: counted once, reported by every process, also for dead processes; and permissions."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.calls.conftest import start_call
from tests.integration.metrics.scrape import ask, becomes, families, value
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.process

CALLS = "mcp_tool_calls_total"
HOSTILE = ['no"} 1\nmcp_forged_total{a="', "no such tool", "\\", "ünknown", "x" * 100, "other "]
KEY = """
from django.contrib.auth.models import Permission, User
from mcp_app.auth.api_keys import issue_api_key
user = User.objects.create(username={name!r})
user.user_permissions.set(Permission.objects.filter(codename__in={permissions!r}))
print(issue_api_key(user=user, name="scraper")[1])
"""
BENCH = """
from django.contrib.auth.models import User
from mcp_app.auth.bench import issue_bench_token
print(issue_bench_token(actor=User.objects.create_superuser("root"))[0])
"""
EXPECTED = {
    "mcp_build_info",
    "mcp_database_up",
    "mcp_redis_up",
    "mcp_requests",
    "mcp_tool_calls",
    "mcp_tool_call_duration_seconds",
    "mcp_running_calls",
    "mcp_open_event_streams",
    "mcp_sessions_in_memory",
    "mcp_processes",
    "mcp_process_start_time_seconds",
    "mcp_process_resident_memory_bytes",
    "mcp_process_cpu_seconds",
    "mcp_message_log_batches_waiting",
    "mcp_message_log_lines_left_out",
    "mcp_oauth_registrations",
    "mcp_oauth_consents",
    "mcp_oauth_token_requests",
    "mcp_oauth_document_fetches",
    "mcp_call_refusals",
    "mcp_limited",
    "mcp_limit_observed",
    "mcp_upstream_faults",
    "mcp_long_results",
    "mcp_oauth_scope_refusals",
    "mcp_redis_memory_used_bytes",
    "mcp_redis_memory_limit_bytes",
    "mcp_workers_seen",
    "mcp_background_calls",
    "mcp_jobs_waiting",
}


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer(2, settings="tests.integration.metrics.settings", worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


@pytest.fixture
def halves(live: LiveServer) -> Iterator[list[Mcp]]:
    """Open a session at each process."""
    with closing(live.mcp(0)) as first, closing(live.mcp(1)) as second:
        first.initialize()
        second.initialize()
        yield [first, second]


def test_response_has_every_family_and_parses(live: LiveServer) -> None:
    answer = ask(live)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = families(answer.body)
    assert found.keys() == EXPECTED
    assert all(family.documentation for family in found.values())


@pytest.mark.parametrize(
    ("tool", "arguments", "outcome"),
    [
        ("test_simple_text", {}, "ok"),
        ("steps", {"count": 2}, "ok"),
        ("test_error_handling", {}, "tool_error"),
        ("steps", {"count": "many"}, "tool_error"),
    ],
    ids=["quick", "on a stream", "failing", "wrong arguments"],
)
def test_calls_of_both_processes_are_counted_once(
    live: LiveServer, halves: list[Mcp], tool: str, arguments: dict[str, Any], outcome: str
) -> None:
    sample: dict[str, str] = {"tool": tool, "outcome": outcome}
    calls, durations = (
        value(live, 0, CALLS, **sample),
        value(live, 0, "mcp_tool_call_duration_seconds_count", tool=tool),
    )
    for _ in range(3):
        for client in halves:
            assert "result" in client.tool(tool, **arguments)
    becomes(live, calls + 6, CALLS, **sample)
    becomes(live, durations + 6, "mcp_tool_call_duration_seconds_count", tool=tool)
    becomes(live, durations + 6, "mcp_tool_call_duration_seconds_bucket", tool=tool, le="+Inf")


def test_requests_are_counted_by_method_and_outcome(live: LiveServer, halves: list[Mcp]) -> None:
    def counted(method: str, outcome: str) -> float:
        return value(live, 0, "mcp_requests_total", method=method, outcome=outcome)

    expected = [("ping", {}, "ok", "ping"), ("prompts/get", {"name": "no"}, "error", "prompts/get")]
    expected += [("mcp_forged{}", {}, "error", "other"), ("no\nsuch method", {}, "error", "other")]
    before = [counted(method, outcome) for *_, outcome, method in expected[:3]]
    for client in halves:
        for method, params, *_ in expected:
            client.call(method, params)
    for (*_, outcome, method), count, more in zip(expected, before, (2, 2, 4), strict=False):
        becomes(live, count + more, "mcp_requests_total", method=method, outcome=outcome)


def test_unknown_tool_names_do_not_become_labels(live: LiveServer, halves: list[Mcp]) -> None:
    before = value(live, 0, CALLS, tool="other", outcome="error")
    for client in halves:
        for name in HOSTILE:
            assert "error" in client.tool(name)
        assert "error" in client.call("tools/call", {"name": 7})
    becomes(live, before + 2 * (len(HOSTILE) + 1), CALLS, tool="other", outcome="error")
    found = families(ask(live).body)
    tools = {sample.labels["tool"] for sample in found["mcp_tool_calls"].samples}
    assert tools.isdisjoint(HOSTILE)
    assert not [name for name in found if "forged" in name]


def test_background_call_is_counted_by_its_worker_and_shown_running(
    live: LiveServer, halves: list[Mcp]
) -> None:
    before = value(live, 0, CALLS, tool="work_once", outcome="ok")
    with start_call(halves[0], "work_once", nonce="seen", steps=20, delay=0.1) as stream:
        becomes(live, 1, "mcp_background_calls", state="running")
        becomes(live, 1, "mcp_running_calls", kind="worker")
        becomes(live, 1, "mcp_open_event_streams", kind="web")
        assert "result" in stream.messages()[-1]
    becomes(live, before + 1, CALLS, tool="work_once", outcome="ok")
    eventually(lambda: value(live, 1, "mcp_background_calls", state="running") == 0)
    assert value(live, 1, "mcp_workers_seen") == 1


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_restarted_process_loses_no_counts(live: LiveServer, halves: list[Mcp], how: signal.Signals) -> None:
    sample = {"tool": "test_simple_text", "outcome": "ok"}
    before = value(live, 0, CALLS, **sample)
    for _ in range(5):
        halves[0].tool("test_simple_text")
    if how == signal.SIGKILL:
        # Counts of the last second are not guaranteed.
        eventually(lambda: value(live, 1, CALLS, **sample) == before + 5)
    live.restart(0, how)
    with closing(live.mcp(0)) as revived:
        revived.initialize()
        revived.tool("test_simple_text")
    becomes(live, before + 6, CALLS, **sample)


def test_stopped_worker_loses_no_counts(live: LiveServer, halves: list[Mcp]) -> None:
    before = value(live, 0, CALLS, tool="work_once", outcome="ok")
    for number in range(4):
        with start_call(halves[1], "work_once", nonce=f"stopped-{number}", steps=1, delay=0) as stream:
            assert "result" in stream.messages()[-1]
    live.restart_worker()
    becomes(live, before + 4, CALLS, tool="work_once", outcome="ok")


@pytest.fixture(scope="module")
def keys(live: LiveServer) -> dict[str, str]:
    """Issue a key of a user with the metrics permission, a key without it, and a test bench token."""
    wanted = {"allowed": ["view_metrics"], "stranger": ["view_message"]}
    found = {
        name: live.shell(KEY.format(name=name, permissions=permissions)).strip()
        for name, permissions in wanted.items()
    }
    return {**found, "tried": live.shell(BENCH).strip()}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"X_Forwarded_For": "203.0.113.9"}, 401),
        ({"Forwarded": "for=203.0.113.9"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer <stranger>"}, 403),
        ({"Authorization": "Bearer <tried>"}, 403),
        ({"Authorization": "Bearer <allowed>"}, 200),
        ({"Authorization": "Bearer <allowed>", "X_Forwarded_For": "203.0.113.9"}, 200),
        ({"Host": "elsewhere.example.com"}, 421),
        ({"Origin": "https://elsewhere.example.com"}, 403),
    ],
)
def test_metrics_require_loopback_or_a_permitted_key(
    live: LiveServer, keys: dict[str, str], headers: dict[str, str], status: int
) -> None:
    for name, key in keys.items():
        headers = {each: text.replace(f"<{name}>", key) for each, text in headers.items()}
    answer = ask(live, **headers)
    assert answer.status == status
    assert (b"mcp_requests" in answer.body) == (status == 200)
    assert ("www-authenticate" in answer.headers) == (status == 401)


def test_only_get_and_head_are_allowed(live: LiveServer) -> None:
    answer = ask(live, method="POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert (ask(live, method="HEAD").status, ask(live, method="HEAD").body) == (200, b"")
