"""The Prometheus metric families for the collected values. The library escapes label values."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from mcp_app.metrics.counts import BUCKETS
from mcp_app.metrics.readings import Readings
from mcp_app.protocol.call_state import OPEN
from mcp_app.protocol.messages.methods import OTHER

CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
MOST_QUEUES = 100
BOUNDS = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
# The gauges, each summed over all processes: the key in a report, and the name and description of the
# metric.
GAUGES = {
    "running_calls": ("mcp_running_calls", "Calls that run now"),
    "open_streams": ("mcp_open_event_streams", "Event streams that clients hold open"),
    "sessions": ("mcp_sessions_in_memory", "Sessions that processes have in memory; one may be in several"),
}
# The counters of ``metrics.tally``: name, description and labels.
RARE = {
    "oauth_registration": ("mcp_oauth_registrations", "Registrations of OAuth clients", "result"),
    "oauth_consent": ("mcp_oauth_consents", "Clients that people allowed or denied", "result"),
    "oauth_token": ("mcp_oauth_token_requests", "Requests for OAuth tokens", "grant", "result"),
    "oauth_document": ("mcp_oauth_document_fetches", "Fetches of clients' documents", "result"),
    "refusal": ("mcp_call_refusals", "Requests that did not begin, by the code of their refusal", "code"),
    "limited": ("mcp_limited", "Calls that a limit refused", "rule"),
    "observed": ("mcp_limit_observed", "Calls that a limit would refuse if it were enforced", "rule"),
    "upstream_fault": ("mcp_upstream_faults", "Failed requests to upstream servers", "server", "kind"),
    "long_result": ("mcp_long_results", "Results above their tool's bound", "result"),
    "oauth_scope_refused": ("mcp_oauth_scope_refusals", "Requests that lacked a scope", "scope"),
}


class Families(Collector):
    """The metric families of one scrape."""

    def __init__(self, readings: Readings, version: str) -> None:
        self._readings = readings
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """Yield the families in a fixed order. A family is missing if its values could not be read."""
        found = self._readings
        labels = {"version": self._version, "python": platform.python_version()}
        yield InfoMetricFamily("mcp_build", "The server's version", value=labels)
        yield _gauge("mcp_database_up", "Whether the database answered", found.calls is not None)
        yield _gauge("mcp_redis_up", "Whether Redis answered", found.totals is not None)
        if found.totals is not None:
            counts = _by_kind(found.totals.counts)
            yield from _counted(counts)
            yield from _processes([orjson.loads(state) for state in found.totals.states.values()])
            waiting = found.log_batches
            yield _gauge("mcp_message_log_batches_waiting", "Batches of the message log in Redis", waiting)
        yield from _redis(found)
        yield from _background(found)


def exposition(readings: Readings, version: str) -> bytes:
    """Return the body of a response in the Prometheus text format."""
    return generate_latest(Families(readings, version))


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _by_kind(counts: dict[str, int]) -> dict[str, list[tuple[str, str, int]]]:
    """Group counts by the first word of their key. Each result has a name, the last word, and the count."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for text, count in sorted(counts.items()):
        kind, _, rest = text.partition(" ")
        name, _, last = rest.rpartition(" ")
        found.setdefault(kind, []).append((name, last, count))
    return found


def _counted(counts: dict[str, list[tuple[str, str, int]]]) -> Iterator[Metric]:
    requests = CounterMetricFamily("mcp_requests", "JSON-RPC requests answered", labels=("method", "outcome"))
    calls = CounterMetricFamily("mcp_tool_calls", "Tool calls answered", labels=("tool", "outcome"))
    for family, kind in ((requests, "request"), (calls, "tool")):
        for name, outcome, count in counts.get(kind, ()):
            family.add_metric((name, outcome), count)
        yield family
    yield _durations(counts)
    yield from _rare(counts)
    left_out = sum(count for *_, count in counts.get("left_out", ()))
    yield CounterMetricFamily(
        "mcp_message_log_lines_left_out", "Messages not logged because too many waited", value=left_out
    )


def _rare(counts: dict[str, list[tuple[str, str, int]]]) -> Iterator[Metric]:
    for kind, (family_name, meaning, *labels) in RARE.items():
        family = CounterMetricFamily(family_name, meaning, labels=labels)
        for *words, count in counts.get(kind, ()):
            family.add_metric(words[-len(labels) :], count)
        yield family


def _durations(counts: dict[str, list[tuple[str, str, int]]]) -> Metric:
    family = HistogramMetricFamily(
        "mcp_tool_call_duration_seconds", "Seconds until a tool call was answered", labels=("tool",)
    )
    buckets: dict[str, dict[int, int]] = {}
    for tool, number, count in counts.get("bucket", ()):
        buckets.setdefault(tool, {})[int(number)] = count
    for tool, _, microseconds in counts.get("microseconds", ()):
        below, cumulated = 0, []
        for at, bound in enumerate(BOUNDS):
            below += buckets.get(tool, {}).get(at, 0)
            cumulated.append((bound, below))
        family.add_metric((tool,), buckets=cumulated, sum_value=microseconds / 1e6)
    return family


def _processes(states: list[dict[str, Any]]) -> Iterator[Metric]:
    yield _gauges("mcp_processes", "Processes that report", "kind", Counter(each["kind"] for each in states))
    for key, (name, meaning) in GAUGES.items():
        summed: Counter[str] = Counter()
        for each in states:
            if each.get(key) is not None:
                summed[each["kind"]] += each[key]
        yield _gauges(name, meaning, "kind", summed)
    ages = [each["keys_age"] for each in states if each.get("keys_age") is not None]
    if ages:
        yield _gauge(
            "mcp_identity_provider_keys_age_seconds", "Age of the provider's keys, the oldest", max(ages)
        )
    each_process = ("kind", "process")
    started = GaugeMetricFamily(
        "mcp_process_start_time_seconds", "When a process started (Unix time)", labels=each_process
    )
    memory = GaugeMetricFamily(
        "mcp_process_resident_memory_bytes", "Memory of a process", labels=each_process
    )
    cpu = CounterMetricFamily("mcp_process_cpu_seconds", "Processor time of a process", labels=each_process)
    for each in sorted(states, key=lambda state: (state["started"], state["name"])):
        for family, key in ((started, "started"), (memory, "memory"), (cpu, "cpu")):
            if each[key] is not None:
                family.add_metric((each["kind"], each["name"]), each[key])
    yield from (started, memory, cpu)


def _redis(found: Readings) -> Iterator[Metric]:
    if found.memory is not None:
        used, limit = found.memory
        yield _gauge("mcp_redis_memory_used_bytes", "Memory Redis uses", used)
        yield _gauge("mcp_redis_memory_limit_bytes", "Memory Redis may use; 0: no limit", limit)
    if found.workers is not None:
        yield _gauge("mcp_workers_seen", "Celery workers seen within 15 seconds", found.workers)


def _background(found: Readings) -> Iterator[Metric]:
    if found.calls is not None:
        states = Counter({state.value: 0 for state in OPEN})
        for (_, state), count in found.calls.items():
            states[state] += count
        yield _gauges("mcp_background_calls", "Background calls that are not over", "state", states)
    if found.jobs is not None:
        jobs: Counter[str] = Counter()
        for at, (queue, count) in enumerate(found.jobs.items()):
            jobs[queue if at < MOST_QUEUES else OTHER] += count
        yield _gauges("mcp_jobs_waiting", "Jobs that no worker has taken", "queue", jobs)


def _gauges(name: str, meaning: str, label: str, values: Counter[str]) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=(label,))
    pairs: Iterable[tuple[str, int]] = values.items()
    for key, value in pairs:
        family.add_metric((key,), value)
    return family
