"""Calls that a server answers with a task, in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_app.protocol.client.answers import Answered, Event, InputRequired, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from mcp_app.upstreams import tasks
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.server import UpstreamServer
from mcp_app.upstreams.tasks import TaskCall, TaskOptions
from tests.servers.task_server import QUESTION, TaskServer
from tests.unit.egress.sites import KeptSite, serve_kept

ERAS = [V2025_11_25, V2026_07_28]
DONE: list[dict[str, Any]] = [{"status": "working"}, {"status": "completed"}]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(tasks, "_learnt", {})


@pytest.fixture
def shared(clean_redis: str, settings: Any) -> None:
    """Share values over Redis."""
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}


def call_of(site: KeptSite, *, background: bool = True, **changes: Any) -> TaskCall:
    server = UpstreamServer(1, "other", f"http://127.0.0.1:{site.port}/mcp")
    usual: dict[str, Any] = {
        "hops": 0, "seconds": 5.0, "headers": (), "on_event": nothing, "on_question": None,
        "call": "c" if background else "",
    }  # fmt: skip
    return TaskCall(server, Caller("one"), "slow", TaskOptions(**{**usual, **changes}))


async def nothing(_event: Event) -> None:
    """Ignore an event."""


PARAMS: dict[str, Any] = {"name": "slow", "arguments": {}}


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("background", [True, False])
async def test_task_is_polled_until_its_result(version: str, *, background: bool) -> None:
    server = TaskServer(version)
    server.states = [*DONE]
    async with serve_kept(server) as site:
        found = await call_of(site, background=background).run(PARAMS)
    assert isinstance(found, Answered)
    assert found.result["content"][0]["text"] == "done"
    # A call within a request asks for a task only after the tool has refused to run without one.
    assert server.methods.count("tools/call") == (1 if background else 2)
    assert server.methods.count("tasks/get") == 2


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("background", [True, False])
async def test_tool_without_tasks_is_called_as_usual(version: str, *, background: bool) -> None:
    server = TaskServer(version, needs_task=False)
    async with serve_kept(server) as site:
        for _ in range(2):
            found = await call_of(site, background=background).run(PARAMS)
            assert isinstance(found, Answered)
    refused = background and version == V2025_11_25
    assert server.methods.count("tools/call") == 2 + refused, "the refusal is remembered"
    assert "tasks/get" not in server.methods


@pytest.mark.parametrize("version", ERAS)
async def test_status_messages_are_progress(version: str) -> None:
    server, events = TaskServer(version), list[Event]()
    texts = ("one", "one", "two")
    server.states = [*({"status": "working", "statusMessage": text} for text in texts), DONE[1]]

    async def take(event: Event) -> None:
        events.append(event)

    async with serve_kept(server) as site:
        await call_of(site, on_event=take).run(PARAMS)
    assert events == [Progress(1.0, None, "one"), Progress(2.0, None, "two")]


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ({"status": "cancelled"}, Kind.REFUSED),
        ({"status": "failed", "error": {"code": -32603, "message": "Broken."}}, Kind.REFUSED),
    ],
)
async def test_task_without_a_result_fails_the_call(version: str, state: dict[str, Any], kind: Kind) -> None:
    server = TaskServer(version)
    server.states = [state]
    if version == V2025_11_25 and "error" in state:
        pytest.skip("The request for the result has the error.")
    async with serve_kept(server) as site:
        with pytest.raises(UpstreamFault) as fault:
            await call_of(site).run(PARAMS)
    assert fault.value.kind == kind


@pytest.mark.parametrize("version", ERAS)
async def test_cancelled_call_cancels_its_task(version: str) -> None:
    server = TaskServer(version)
    async with serve_kept(server) as site:
        task = asyncio.create_task(call_of(site).run(PARAMS))
        assert await asyncio.to_thread(server.polled.wait, 5)
        task.cancel()
        assert await asyncio.to_thread(server.cancelled.wait, 5)


@pytest.mark.parametrize("version", ERAS)
async def test_call_within_a_request_has_its_timeout(version: str) -> None:
    server = TaskServer(version)
    async with serve_kept(server) as site:
        with pytest.raises(UpstreamFault) as fault:
            await call_of(site, background=False, seconds=0.2).run(PARAMS)
        assert await asyncio.to_thread(server.cancelled.wait, 5)
    assert fault.value.kind == Kind.TIMEOUT


async def test_modern_task_asks_and_gets_the_answers_once() -> None:
    server = TaskServer(V2026_07_28)
    asks = {"status": "input_required", "inputRequests": {"q": QUESTION}}
    server.states = [asks, asks, DONE[1]]
    async with serve_kept(server) as site:
        asked = await call_of(site).run(PARAMS)
        assert asked == InputRequired({"q": QUESTION}, None, "t-1")
        responses = {"q": {"action": "accept", "content": {"name": "Ada"}}}
        found = await call_of(site).answer("t-1", responses)
    assert isinstance(found, Answered)
    assert server.answers == responses
    assert server.methods.count("tools/call") == 1


async def cancelled_while_asked(call: TaskCall, server: TaskServer) -> None:
    """Cancel a call whose task asks. The attempt of the next round takes over."""
    await call.run(PARAMS)
    await call.cancel()


async def cancelled_while_answered(call: TaskCall, server: TaskServer) -> None:
    """Cancel a call while its answers are sent."""
    server.held.add("tasks/update")
    await cancelled_at("tasks/update", call.answer("t-1", {}), server)


async def cancelled_while_polled(call: TaskCall, server: TaskServer) -> None:
    """Cancel a call while its task works."""
    server.states = [{"status": "working"}]
    server.held.add("tasks/get")
    await cancelled_at("tasks/get", call.run(PARAMS), server)


async def cancelled_between_runs(call: TaskCall, server: TaskServer) -> None:
    """Cancel a suspended background call, for which no code runs."""
    await call.run(PARAMS)
    left = await tasks.left_of("c")
    assert left is not None
    await tasks.cancel(call._server, Caller(left.caller, left.capabilities), left, "c")


async def cancelled_at(method: str, work: Any, server: TaskServer) -> None:
    task = asyncio.create_task(work)
    async with asyncio.timeout(10):
        while method not in server.methods:
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


CANCELS = [
    cancelled_while_asked, cancelled_while_answered, cancelled_while_polled, cancelled_between_runs,
]  # fmt: skip


@pytest.mark.requirement("INT-63")
@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("cancel", CANCELS)
async def test_cancel_reaches_a_task_in_each_state(
    cancel: Callable[[TaskCall, TaskServer], Awaitable[None]],
) -> None:
    server = TaskServer(V2026_07_28)
    server.states = [{"status": "input_required", "inputRequests": {"q": QUESTION}}]
    async with serve_kept(server) as site:
        await cancel(call_of(site), server)
        assert await asyncio.to_thread(server.cancelled.wait, 10)
    assert await tasks.left_of("c") is None


@pytest.mark.usefixtures("shared")
async def test_cancelled_attempt_leaves_the_task_to_the_next() -> None:
    server = TaskServer(V2026_07_28)
    server.states = [{"status": "input_required", "inputRequests": {"q": QUESTION}}]
    async with serve_kept(server) as site:
        first, second = call_of(site), call_of(site)
        await first.run(PARAMS)
        await second.adopt("t-1")
        await first.cancel()
        assert "tasks/cancel" not in server.methods
        await second.cancel()
        assert "tasks/cancel" in server.methods
