"""Normal operation logs no warnings, and faults are logged."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.clients.raw_http import RawClient
from tests.servers.live import eventually

pytestmark = pytest.mark.process

ENDED = "Its process is ended"
TROUBLE = (" WARNING ", " ERROR ", "Traceback")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(web_processes=1, concurrency=1) as made:
        yield made


def troubles(cluster: Cluster) -> list[str]:
    return [line for line in cluster.logs().splitlines() if any(word in line for word in TROUBLE)]


def test_discovery_without_authorization_server_logs_nothing(cluster: Cluster) -> None:
    for name in ("oauth-protected-resource/mcp", "oauth-authorization-server", "openid-configuration"):
        with RawClient("127.0.0.1", cluster.ports[0]) as client:
            answer = client.request("GET", f"/.well-known/{name}")
        assert (answer.status, json.loads(answer.body)) == (404, {"error": "not_found"})
    assert troubles(cluster) == []


@pytest.mark.parametrize("tool", ["spin", "keep_lock"])
def test_cancelled_call_is_one_log_line(cluster: Cluster, tool: str) -> None:
    session = open_session(cluster)
    worker = cluster.worker_processes[0]
    (before,) = worker.children
    earlier = cluster.logs().count(ENDED)
    asked = call(cluster, session, f"asked-{tool}", tool, seconds=90)
    cluster.wait_for(f"asked-{tool}")
    asked.cancel()
    asked.join()
    eventually(lambda: before not in worker.children and len(worker.children) == 1, 40, "another process")
    # The next call ends after all log lines of the previous one.
    call(cluster, session, f"after-{tool}", "work", steps=1).join()
    assert troubles(cluster) == []
    (line,) = [line for line in cluster.logs().splitlines() if ENDED in line][earlier:]
    assert " INFO mcp.worker " in line


def test_crash_of_worker_process_is_logged_as_error(cluster: Cluster) -> None:
    session, worker = open_session(cluster), cluster.worker_processes[0]
    (before,) = worker.children
    crashed = call(cluster, session, "crashed", "doze", seconds=90)
    cluster.wait_for("crashed")
    cluster.kill(before, "worker child")
    crashed.join()
    assert any("exited with" in line and str(signal.SIGKILL.name) in line for line in troubles(cluster))
