"""One scrape of a process, parsed like Prometheus."""

from __future__ import annotations

from typing import Any

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.clients.raw_http import RawClient
from tests.clients.raw_wire import Answer
from tests.servers.live import LiveServer, eventually


def ask(server: LiveServer, process: int = 0, method: str = "GET", **headers: str) -> Answer:
    with RawClient("127.0.0.1", server.ports[process]) as raw:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return raw.request(method, "/metrics", named)


def families(body: bytes) -> dict[str, Metric]:
    """Return the metric families of a response; fail on duplicates, as Prometheus does."""
    found = {family.name: family for family in text_string_to_metric_families(body.decode())}
    samples = [
        (each.name, *sorted(each.labels.items())) for family in found.values() for each in family.samples
    ]
    assert len(samples) == len(set(samples))
    return found


def value(server: LiveServer, process: int, name: str, **labels: Any) -> float:
    """Return the value of a sample at a process; 0 if missing."""
    answer = ask(server, process)
    assert answer.status == 200, answer
    samples = [sample for family in families(answer.body).values() for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == name and sample.labels == labels]
    assert len(found) <= 1, found
    return found[0] if found else 0.0


def becomes(server: LiveServer, expected: float, name: str, **labels: Any) -> None:
    """Wait until each process reports the value, and assert that it stays."""
    for process in range(len(server.processes)):
        eventually(
            lambda process=process: value(server, process, name, **labels) >= expected,  # type: ignore[misc]
            what=f"{name}{labels} {expected}",
        )
        assert value(server, process, name, **labels) == expected
