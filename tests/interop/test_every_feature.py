"""Official clients use every feature, over every transport and in each era they support."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.clients.stdio_child import COMMAND, ROOT
from tests.interop import npm, pypi
from tests.interop.split import Split
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
LEGACY, MODERN = "2025-11-25", "2026-07-28"
# The arguments that select an era: clients of the first lines support one. HTTP+SSE is of the older era only.
CLIENTS: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
    "mcp1": {LEGACY: {"http": (), "sse": (), "stdio": ()}},
    "sdk1.mjs": {LEGACY: {"http": (), "sse": (), "stdio": ()}},
    **{
        client: {
            LEGACY: {"http": ("legacy",), "sse": ("legacy",), "stdio": ("legacy",)},
            # Clients that probe a process for its era give up on a slow start, so the era is given.
            MODERN: {"http": ("auto",), "stdio": (MODERN,)},
        }
        for client in ("mcp2", "fastmcp4", "sdk2.mjs")
    },
}
CASES = [
    pytest.param(client, version, transport, mode, id=f"{client}-{version}-{transport}")
    for client, eras in CLIENTS.items()
    for version, transports in eras.items()
    for transport, mode in transports.items()
]
TOOLS = {
    "add",
    "echo",
    "calculate",
    "count",
    "chat",
    "ask_everything",
    "hold",
    "spare",
    "process",
    "book_trip",
}


# A server started by a client must not have the client's packages on its path.
SERVER = f"cd {shlex.quote(str(ROOT))} && unset PYTHONPATH && exec {shlex.join(COMMAND)}"


@pytest.fixture(scope="module")
def live_every() -> Iterator[LiveServer]:
    """Start two web processes and a worker, with several pages in every list."""
    with LiveServer(2, settings="tests.interop.feature_settings", worker=True) as server:
        yield server
        assert not server.trouble(), server.logs()[-4000:]


def _target(server: LiveServer, transport: str, stack: ExitStack) -> list[str]:
    if transport == "http":
        return [transport, server.url]
    if transport == "sse":
        port = stack.enter_context(Split(*server.ports))
        return [transport, f"http://127.0.0.1:{port}/sse"]
    return [transport, "/bin/sh", "-c", SERVER]


def check(report: dict[str, Any], server: LiveServer, transport: str) -> None:
    """Assert that the report of a client is complete."""
    assert set(report["tools"]) >= TOOLS
    assert set(report["prompts"]) == {"code_review", "analyze_logs", "third"}
    assert {uri.rstrip("/") for uri in report["resources"]} == {"server://info", "note://one", "note://two"}
    assert set(report["templates"]) >= {"demo://greeting/{name}", "note://{word}/longer"}
    for kind in ("tools", "prompts", "resources", "templates"):
        assert len(report[kind]) == len(set(report[kind]))
        assert report["pages"][kind] == -(-len(report[kind]) // 2)
    assert report["structured"] == {"result": 42}
    assert report["greeting"] == "Hello, Ada!"
    assert "x = 1" in report["review"]
    assert "Python" in report["completion"]
    _check_talk(report)
    assert report["stopped"], "the cancelled call went on"
    assert report["updated"]
    assert report["changed"]
    booking = report["booked"]["structured"]
    assert booking, report["booked"]["text"]
    assert (booking["guest"], booking["reservations"], booking["made_on"]) == ("Ada", 1, "ForkPoolWorker")
    assert report["came_back"] == "welcome back"
    web = [str(process.pid) for process in server.processes]
    # Over HTTP+SSE the first process holds the stream, and the second one serves posts.
    expected = {"http": web, "sse": web[1:]}.get(transport)
    assert report["process"] in expected if expected else report["process"] not in web


def _check_talk(report: dict[str, Any]) -> None:
    assert report["chat"] == "chatted"
    # Some clients drop progress that arrives together with the response, on a busy machine.
    steps = [(step["progress"], step["total"], step["message"]) for step in report["progress"]]
    assert steps
    assert steps == [(number, 3, f"{number} of 3") for number in (1, 2, 3)][: len(steps)]
    assert report["heard"]
    assert [line for line in report["logs"] if "holding" not in line] == ["said aloud", "said louder"]
    assert report["asked"] == "Ada | words | file:///home/ada"


@pytest.mark.requirement("CONF-02", "CONF-03", "SSE1-04", "SSE1-07", "SSE1-08")
@pytest.mark.parametrize(("client", "version", "transport", "mode"), CASES)
def test_client_uses_every_feature(
    live_every: LiveServer, client: str, version: str, transport: str, mode: tuple[str, ...]
) -> None:
    run: Callable[..., dict[str, Any]] = npm.run_script if client.endswith(".mjs") else pypi.run_script
    with ExitStack() as stack:
        target = _target(live_every, transport, stack)
        environment = live_every.environment if transport == "stdio" else None
        report = run(client, *mode, *target, environment=environment)
    check(report, live_every, transport)
    assert report["version"] in (version, None)
