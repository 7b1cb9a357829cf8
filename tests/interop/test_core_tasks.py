"""Official clients use calls as tasks of 2025-11-25: polling, waiting, elicitation, cancellation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop import npm, pypi
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]


@pytest.fixture(scope="module")
def live_tasks() -> Iterator[LiveServer]:
    """Start two web processes and a worker, with slow tools."""
    with LiveServer(2, settings="tests.ledger_app.settings", worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


@pytest.mark.requirement("CONF-03", "TASK4-01", "TASK4-03", "TASK4-05", "TASK4-07", "TASK4-09", "TASK4-10")
@pytest.mark.parametrize("client", ["mcp1_tasks", "tasks.mjs"])
def test_client_uses_calls_as_tasks(live_tasks: LiveServer, client: str) -> None:
    run: Callable[..., dict[str, Any]] = npm.run_script if client.endswith(".mjs") else pypi.run_script
    report = run(client, live_tasks.url)
    assert report["declared"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
    assert (report["support"]["work"], report["support"]["ask_slowly"]) == ("optional", "required")
    assert (report["made"]["status"], report["made"]["ttl"]) == ("working", 60_000)
    assert report["polled"][-1] == "completed"
    assert report["worked"].endswith(" 15")
    assert report["asked"] == "Hello, Ada!"
    assert report["related"]
    assert (report["cancelled"], report["cancelled_code"]) == ("cancelled", -32800)
    assert "input_required" in report["heard"]
    # Progress received by a client that keeps its callback.
    assert report.get("steps", [15])[-1] == 15
