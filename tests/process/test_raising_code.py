"""Exceptions of application code end its own call with an error; processes and other calls continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.generator import call, open_session
from tests.clients.raw_http import Mcp
from tests.clients.stdio_child import Child
from tests.process.raising_app.mcp import KINDS

pytestmark = pytest.mark.process

TOOLS = (
    "at_once",
    "later",
    "in_thread",
    "in_own_task",
    "in_callback",
    "in_text",
    "through_resource",
    "on_worker",
    "on_workers_thread",
)
# Thrown into a waiting coroutine, GeneratorExit closes all that it awaits: the tool's own boundary too.
CLOSED = {("generator", "in_own_task"), ("generator", "on_worker")}
REQUESTS = {
    "resource": ("resources/read", lambda kind: {"uri": f"raising://{kind}"}),
    "async resource": ("resources/read", lambda kind: {"uri": f"raising-async://{kind}"}),
    "prompt": ("prompts/get", lambda kind: {"name": "broken", "arguments": {"kind": kind}}),
    "completion": ("completion/complete", lambda kind: _completed("kind", kind)),
    "async completion": ("completion/complete", lambda kind: _completed("other", kind)),
}


def _completed(name: str, kind: str) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": "broken"}, "argument": {"name": name, "value": kind}}


@pytest.fixture
def session(cluster: Cluster) -> Iterator[Mcp]:
    with closing(open_session(cluster)) as opened:
        yield opened


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(web_processes=1, concurrency=2, settings="tests.process.raising_app.settings") as made:
        yield made


def _answer(session: Mcp, way: str, kind: str) -> dict[str, Any]:
    if way in TOOLS:
        return session.tool(way, kind=kind)
    method, params = REQUESTS[way]
    return session.call(method, params(kind))


def test_exception_ends_its_own_call_only(cluster: Cluster, session: Mcp) -> None:
    web, worker = cluster.processes[0].pid, cluster.worker_processes[0]
    children = worker.children
    neighbours = [
        call(cluster, session, f"neighbour-{tool}", tool, steps=steps)
        for tool, steps in (("stroll", 200), ("work_once", 200))
    ]
    for neighbour in neighbours:
        cluster.wait_for(neighbour.nonce)
    wrong = {}
    for kind in KINDS:
        for way in (*TOOLS, *REQUESTS):
            answer = _answer(session, way, kind)
            is_tool_error = way in TOOLS and (kind, way) not in CLOSED
            if not (answer.get("result", {}).get("isError") if is_tool_error else "error" in answer):
                wrong[kind, way] = answer
    assert not wrong, "\n".join(f"{each}: {answer}" for each, answer in wrong.items())
    for neighbour in neighbours:
        neighbour.join()
        assert cluster.history.of(neighbour.nonce, "answer"), neighbour.nonce
    cluster.check()
    assert cluster.processes[0].pid == web
    assert cluster.processes[0].child is not None
    assert cluster.processes[0].child.poll() is None
    assert worker.children == children


def test_stdio_server_survives_exceptions_of_code(cluster: Cluster) -> None:
    ways = [way for way in TOOLS if "worker" not in way]
    with Child(cluster.installation) as child:
        child.initialize()
        for kind in KINDS:
            for way in ways:
                params = {"name": way, "arguments": {"kind": kind}}
                answer = child.call(f"{way} {kind}", "tools/call", params)
                assert answer.get("result", {}).get("isError") or "error" in answer, (way, kind, answer)
        assert child.call("last", "ping")["result"] == {}
        assert child.end() == 0


def test_worker_process_ignores_interrupt_sent_by_its_tool(cluster: Cluster, session: Mcp) -> None:
    children = cluster.worker_processes[0].children
    answer = session.tool("interrupt_worker")
    assert answer["result"]["content"][0]["text"] == "interrupted"
    assert cluster.worker_processes[0].children == children
