"""Tasks of 2025-11-25 with real processes: created, awaited, queried and cancelled at either process."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.raw_http import EventStream, Mcp
from tests.integration.calls.conftest import Installation, OpenSession, text_of
from tests.samples.published_schema import problems
from tests.servers.live import eventually
from tests.wire import referee

pytestmark = pytest.mark.process

VERSION = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"


def start(client: Mcp, tool: str, **arguments: Any) -> str:
    """Return the id of the task created for a call; its progress token is its nonce."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 600_000}}
    result = client.call("tools/call", {**params, "_meta": {"progressToken": arguments["nonce"]}})["result"]
    assert problems(VERSION, "CreateTaskResult", result) == []
    assert result["task"]["status"] == "working"
    return str(result["task"]["taskId"])


def status(client: Mcp, task_id: str) -> str:
    """Return the current status of the task."""
    result = client.call("tasks/get", {"taskId": task_id})["result"]
    assert problems(VERSION, "GetTaskResult", result) == []
    return str(result["status"])


def wait(client: Mcp, task_id: str) -> EventStream:
    """Open the stream of a ``tasks/result``."""
    return client.open_call("tasks/result", {"taskId": task_id})


def told(stream: EventStream) -> dict[str, Any]:
    """Return the next message, validated against the published schema."""
    message: dict[str, Any] = stream.message(30)
    assert referee.problems(VERSION, message, "tools/call") == []
    return message


@pytest.fixture
def other(open_session: OpenSession) -> Mcp:
    """Open another session of the same principal at the other process."""
    return open_session(VERSION, 1)


@pytest.mark.requirement("TASK4-03", "TASK4-04", "TASK4-05", "TASK4-14", "TASK4-09", "PROG-06", "TASK4-10")
def test_task_is_known_everywhere_and_its_result_reaches_all_waiters(
    client: Mcp, other: Mcp, live: Installation, nonce: str
) -> None:
    listening = client.get_stream()
    task_id = start(client, "work", nonce=nonce, steps=20)
    assert status(other, task_id) == "working"
    with wait(client, task_id) as here, wait(other, task_id) as there:
        ended = [told(here), told(there)]
    assert [text_of(message).startswith(nonce) for message in ended] == [True, True]
    assert [message["result"]["_meta"] for message in ended] == [{RELATED: {"taskId": task_id}}] * 2
    assert text_of(other.call("tasks/result", {"taskId": task_id})).startswith(nonce)
    assert status(client, task_id) == "completed"
    with listening:
        heard = []
        while not heard or heard[-1].get("params", {}).get("status") != "completed":
            heard.append(told(listening))
    steps = [m["params"] for m in heard if m["method"] == "notifications/progress"]
    assert [step["progress"] for step in steps] == sorted({step["progress"] for step in steps})
    assert steps[-1]["progress"] == 20
    assert {step["progressToken"] for step in steps} == {nonce}
    logs = [m["params"] for m in heard if m["method"] == "notifications/message"]
    assert logs
    assert all(said["_meta"] == {RELATED: {"taskId": task_id}} for said in (*steps, *logs))
    assert len(live.lines(nonce, "start")) == 1


@pytest.mark.requirement("TASK4-05")
def test_waiting_client_resumes_at_another_process(client: Mcp, elsewhere: Mcp, nonce: str) -> None:
    task_id = start(client, "work", nonce=nonce, steps=25)
    with wait(client, task_id) as stream:
        first = stream.next()
        assert first is not None
        stream.cut()
    with elsewhere.get_stream(first.id) as resumed:
        assert text_of(told(resumed)).startswith(nonce)


@pytest.mark.requirement("TASK4-14", "TASK4-06")
def test_task_outlives_its_session(open_session: OpenSession, other: Mcp, nonce: str) -> None:
    client = open_session()
    task_id = start(client, "work", nonce=nonce, steps=15)
    client.delete()
    with wait(other, task_id) as stream:
        assert text_of(told(stream)).startswith(nonce)
    assert status(other, task_id) == "completed"


@pytest.mark.requirement("TASK4-05", "TASK4-08", "TASK4-09", "TASK4-14")
def test_task_question_is_answered_by_another_session_and_runs_once(
    client: Mcp, other: Mcp, live: Installation, nonce: str
) -> None:
    task_id = start(client, "ask_slowly", nonce=nonce)
    with wait(other, task_id) as stream:
        question = told(stream)
        assert (question["method"], status(client, task_id)) == ("elicitation/create", "input_required")
        assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
        # An invalid response is followed by another request.
        other.respond(question["id"], {"action": "accept", "content": {"value": 7}})
        again = told(stream)
        assert again["id"] != question["id"]
        other.respond(again["id"], {"action": "accept", "content": {"value": "Ada"}})
        assert text_of(told(stream)) == "Hello, Ada!"
    assert status(client, task_id) == "completed"
    assert len(live.lines(nonce, "start")) == 3


@pytest.mark.requirement("TASK4-05", "TASK4-08")
def test_error_response_to_a_question_fails_the_task(client: Mcp, live: Installation, nonce: str) -> None:
    task_id = start(client, "ask_slowly", nonce=nonce)
    with wait(client, task_id) as stream:
        client.respond(told(stream)["id"], error={"code": -1, "message": "nobody is here"})
        result = told(stream)["result"]
    assert result["isError"]
    assert "nobody is here" in json.dumps(result)
    assert status(client, task_id) == "failed"


@pytest.mark.requirement("TASK4-02", "TASKX-24")
def test_task_only_tool_is_listed_as_required(client: Mcp, open_session: OpenSession, nonce: str) -> None:
    support = {
        tool["name"]: tool.get("execution", {}).get("taskSupport")
        for tool in client.call("tools/list")["result"]["tools"]
    }
    assert (support["work"], support["long_work"]) == ("optional", "required")
    assert client.tool("long_work", nonce=nonce)["error"]["code"] == -32601
    older = open_session("2025-06-18").call("tools/list")["result"]["tools"]
    assert "long_work" in [tool["name"] for tool in older]
    assert not any("execution" in tool for tool in older)


@pytest.mark.requirement("TASK4-07", "CEL-05", "CEL-02", "CAN-09")
def test_cancelling_a_task_ends_it_at_once_and_its_work_soon(
    client: Mcp, other: Mcp, live: Installation, nonce: str
) -> None:
    running = start(client, "work", nonce=nonce, steps=600)
    live.started(nonce, "alive")
    client.notify("notifications/cancelled", {"requestId": client.next_id})
    assert status(client, running) == "working"
    with wait(client, running) as stream:
        result = other.call("tasks/cancel", {"taskId": running})["result"]
        sent = time.monotonic()
        assert (result["status"], told(stream)["error"]["code"]) == ("cancelled", -32800)
    live.started(nonce, "stopped")
    assert live.lines(nonce, "stopped")[-1].at - sent < 2.5 + SLACK
    assert other.call("tasks/cancel", {"taskId": running})["error"]["code"] == -32602
    waiting = start(client, "approved_quick", nonce=f"{nonce}-waits")
    assert client.call("tasks/cancel", {"taskId": waiting})["result"]["status"] == "cancelled"
    lines = f"Message.objects.filter(outcome='cancelled', payload__contains='{nonce}-waits')"
    logged = f"from mcp_app.models import Message; print({lines}.count())"
    eventually(lambda: live.shell(logged).strip() == "1", 10, "its end is in the log")
    deaf = start(client, "doze", nonce=f"{nonce}-deaf", seconds=60)
    live.started(f"{nonce}-deaf", "alive")
    assert client.call("tasks/cancel", {"taskId": deaf})["result"]["status"] == "cancelled"
    eventually(lambda: live.still_for(f"{nonce}-deaf", 1.5), 20, "the end of deaf work")
    assert status(client, deaf) == "cancelled"


@pytest.mark.requirement("CEL-10", "CEL-03", "TASK4-05")
def test_task_of_a_killed_process_restarts_or_fails(
    client: Mcp, other: Mcp, live: Installation, nonce: str
) -> None:
    once = start(client, "work_once", nonce=f"{nonce}-once", steps=30)
    again = start(client, "work", nonce=f"{nonce}-again", steps=30)
    with wait(other, once) as lost, wait(other, again) as kept:
        for name in ("once", "again"):
            os.kill(live.started(f"{nonce}-{name}", "alive").pid, signal.SIGKILL)
        assert "interrupted" in lost.message(60)["error"]["message"]
        assert text_of(kept.message(60)).startswith(nonce)
    assert [status(client, task_id) for task_id in (once, again)] == ["failed", "completed"]
