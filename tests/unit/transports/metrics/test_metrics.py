"""The text of a metrics scrape for any content, and the setting that disables it."""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mcp_app.conf import Settings
from mcp_app.metrics.families import exposition
from mcp_app.metrics.readings import Readings
from mcp_app.process import Process
from mcp_app.streams.base import Totals
from mcp_app.streams.gateway import Streams
from mcp_app.transports.metrics_endpoint import MetricsEndpoint

LOOPBACK = Settings(auth="loopback", loopback=True)
HOSTILE = ['a"} 1\nforged_total{x="', "\\", "\\n", "two words", "# HELP forged x", "Ä😀", "", "other"]


def samples(readings: Readings) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return values by sample name and label values, in the order of label names."""
    body = exposition(readings, "1").decode()
    return {
        (sample.name, tuple(text for _, text in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body)
        for sample in family.samples
    }


def state(**more: Any) -> bytes:
    facts = {"kind": "web", "name": "host:1", "started": 1.0, "cpu": 2.0, "memory": 3}
    return orjson.dumps({**facts, **more})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_stays_inside_its_label(name: str) -> None:
    counts = {f"tool {name} ok": 2, f"bucket {name} 0": 2, f"microseconds {name} sum": 500_000}
    found = samples(
        Readings(
            totals=Totals(counts, {"p": state(name=name)}), jobs={name: 4}, calls=Counter({(name, name): 1})
        )
    )
    assert found["mcp_tool_calls_total", ("ok", name)] == 2
    assert found["mcp_tool_call_duration_seconds_count", (name,)] == 2
    assert found["mcp_tool_call_duration_seconds_sum", (name,)] == 0.5
    assert found["mcp_process_start_time_seconds", ("web", name)] == 1
    assert found["mcp_jobs_waiting", (name,)] == 4
    assert not [text for text, _ in found if "forged" in text]


def test_histogram_buckets_are_cumulative() -> None:
    counts = {"bucket t 0": 1, "bucket t 2": 2, "bucket t 17": 3, "microseconds t sum": 1}
    found = samples(Readings(totals=Totals(counts, {})))
    buckets = [value for (name, _), value in found.items() if name == "mcp_tool_call_duration_seconds_bucket"]
    assert buckets == [1, 1, *[3] * 15, 6]


def test_process_figures_are_summed_by_kind() -> None:
    states = {
        "a": state(running_calls=1, open_streams=2, sessions=3),
        "b": state(name="host:2", running_calls=10, open_streams=20, sessions=30),
        "c": state(kind="worker", name="host:3", running_calls=5, memory=None),
    }
    found = samples(Readings(totals=Totals({}, states)))
    assert found["mcp_running_calls", ("web",)] == 11
    assert found["mcp_running_calls", ("worker",)] == 5
    assert found["mcp_open_event_streams", ("web",)] == 22
    assert found["mcp_processes", ("web",)] == 2
    assert ("mcp_open_event_streams", ("worker",)) not in found
    assert ("mcp_process_resident_memory_bytes", ("worker", "host:3")) not in found


def test_oauth_counts_have_labels() -> None:
    counts = {
        "oauth_token refresh_token ok": 3,
        "oauth_token other unsupported_grant_type": 1,
        "oauth_registration ok": 2,
        "oauth_scope_refused mcp:admin": 4,
    }
    found = samples(Readings(totals=Totals(counts, {"a": state(keys_age=5), "b": state(keys_age=None)})))
    assert found["mcp_oauth_token_requests_total", ("refresh_token", "ok")] == 3
    assert found["mcp_oauth_token_requests_total", ("other", "unsupported_grant_type")] == 1
    assert found["mcp_oauth_registrations_total", ("ok",)] == 2
    assert found["mcp_oauth_scope_refusals_total", ("mcp:admin",)] == 4
    assert found["mcp_identity_provider_keys_age_seconds", ()] == 5


def test_queues_above_one_hundred_are_summed_as_other() -> None:
    found = samples(Readings(jobs={f"queue-{number}": 1 for number in range(150)}))
    jobs = {labels: value for (name, labels), value in found.items() if name == "mcp_jobs_waiting"}
    assert len(jobs) == 101
    assert jobs["other",] == 50


def test_unavailable_figures_are_absent() -> None:
    names = {name for name, _ in samples(Readings())}
    assert names == {"mcp_build_info", "mcp_database_up", "mcp_redis_up"}


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer unknown")]])
async def test_disabled_metrics_return_404(headers: list[tuple[bytes, bytes]]) -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    settings = replace(LOOPBACK, metrics=False)
    metrics = MetricsEndpoint(Process(Streams.in_memory(settings), settings))
    scope = {"method": "GET", "headers": [(b"host", b"127.0.0.1:8000"), *headers], "client": ("127.0.0.1", 1)}
    await metrics(scope, None, send)
    assert sent[0]["status"] == 404
