"""Real workers: an existing Celery task as a tool, slots of a limited tool, a switch in the admin."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.servers.live import LiveServer, eventually

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    """Return one web process and a worker with three children."""
    settings = "tests.process.queueing_app.settings"
    with LiveServer(
        web_processes=1, worker=True, concurrency=3, settings=settings, env={"DEMO": "off"}
    ) as live:
        yield live
        assert live.trouble() == []


@pytest.fixture
def client(server: LiveServer) -> Iterator[Mcp]:
    """Return a client with a session."""
    client = server.mcp()
    client.initialize()
    yield client
    client.delete()
    client.close()


def _structured(response: dict[str, Any]) -> Any:
    return response["result"]["structuredContent"]


def test_existing_celery_task_runs_in_worker_and_reports_progress(server: LiveServer, client: Mcp) -> None:
    params = {"name": "import_books", "arguments": {"books": 3}, "_meta": {"progressToken": "p"}}
    result = _structured(client.call("tools/call", params))
    assert result["imported"] == 3
    assert result["pid"] in server.worker_processes[0].children
    messages = [message["params"]["message"] for message in client.received if "params" in message]
    assert messages == ["book 1", "book 2", "book 3"]


def test_calls_of_limited_tool_never_overlap(server: LiveServer, client: Mcp) -> None:
    def call(number: int) -> list[float]:
        own = client.via(server.ports[0])
        own.next_id += number * 100
        try:
            return list(_structured(own.tool("alone", seconds=0.5))["result"])
        finally:
            own.close()

    with ThreadPoolExecutor(3) as pool:
        spans = sorted(pool.map(call, range(3)))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_administrator_moves_tool_to_background_without_restart(server: LiveServer, client: Mcp) -> None:
    web, worker = server.processes[0].pid, server.worker_processes[0]
    assert _structured(client.tool("here"))["result"] == web
    server.shell(
        "from mcp_app.models import Tool; from mcp_app.catalogue.changes.services import update_entry;"
        "update_entry(entry=Tool.objects.get(name='here'), actor=None, background=True)"
    )
    eventually(
        lambda: _structured(client.tool("here"))["result"] in worker.children, 5, "running in the worker"
    )
