"""Tasks of 2026-07-28 with real processes: created at one, queried and cancelled at the other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.bounds import SLACK
from tests.clients.modern import Modern
from tests.clients.raw_http import is_stream
from tests.integration.calls.conftest import Installation, OpenSession, start_call, text_of
from tests.samples.published_schema import problems
from tests.servers.live import eventually

pytestmark = pytest.mark.process

EXTENSION = "io.modelcontextprotocol/tasks"
DECLARED = {"extensions": {EXTENSION: {}}}
OVER = ("completed", "failed", "cancelled")


class TaskClient(Modern):
    """A client that declares the tasks extension."""

    def start(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the task created for a call."""
        answer = self.post("tools/call", {"name": tool, "arguments": arguments})
        assert not is_stream(answer)
        result: dict[str, Any] = answer.json()["result"]
        assert problems("ext-tasks", "CreateTaskResult", result) == []
        return result

    def task(self, task_id: str) -> dict[str, Any]:
        """Return the current state of the task."""
        answer = self.post("tasks/get", {"taskId": task_id})
        assert not is_stream(answer)
        result: dict[str, Any] = answer.json()["result"]
        assert problems("ext-tasks", "GetTaskResult", result) == []
        return result

    def cancel(self, task_id: str) -> None:
        """Cancel the task; retry while the database is busy."""
        eventually(
            lambda: "result" in self.post("tasks/cancel", {"taskId": task_id}).json(), 20, "the cancel"
        )

    def settled(self, task_id: str, seconds: float = 30.0) -> dict[str, Any]:
        """Return the state of the task once it has ended."""
        seen: dict[str, Any] = {}

        def is_over() -> bool:
            seen.update(self.task(task_id))
            return seen["status"] in OVER

        eventually(is_over, seconds, "the end of the task")
        return self.task(task_id)


@pytest.fixture
def modern(live: Installation) -> Iterator[TaskClient]:
    with closing(TaskClient.at(live.ports[0], capabilities=DECLARED)) as made:
        yield made


@pytest.fixture
def other(live: Installation) -> Iterator[TaskClient]:
    with closing(TaskClient.at(live.ports[1], capabilities=DECLARED)) as made:
        yield made


@pytest.mark.requirement("TASKX-05", "TASKX-06", "TASKX-14", "HDR-04", "CEL-08", "TASKX-17")
def test_task_is_known_everywhere_and_reports_progress_and_result(
    modern: TaskClient, other: TaskClient, live: Installation, nonce: str
) -> None:
    made = modern.start("work", nonce=nonce, steps=30)
    seen = other.task(made["taskId"])
    assert (seen["status"], seen["createdAt"]) == ("working", made["createdAt"])
    eventually(lambda: "of 30" in other.task(made["taskId"]).get("statusMessage", ""), 20, "progress")
    assert other.task(made["taskId"])["lastUpdatedAt"] > made["lastUpdatedAt"]
    done = other.settled(made["taskId"])
    assert text_of(done).startswith(nonce)
    assert done["result"]["resultType"] == "complete"
    wrong = other.post("tasks/get", {"taskId": made["taskId"]}, Mcp_Name="another")
    assert (wrong.status, wrong.json()["error"]["code"]) == (400, -32020)


@pytest.mark.requirement("CEL-06", "TASKX-02")
def test_disconnect_ends_a_request_but_not_a_task(modern: TaskClient, live: Installation, nonce: str) -> None:
    bound, kept = f"{nonce}-bound", f"{nonce}-kept"
    made = modern.start("work", nonce=kept, steps=40)
    modern.close()
    params = {"name": "work", "arguments": {"nonce": bound, "steps": 600}, "_meta": {"progressToken": "p"}}
    with closing(Modern.at(live.ports[0])) as undeclared, undeclared.open("tools/call", params):
        live.started(bound, "alive")
    live.started(bound, "stopped")
    assert text_of(modern.settled(made["taskId"])).startswith(kept)


@pytest.mark.requirement("TASKX-10", "CEL-05", "CEL-02")
def test_cancellation_at_the_other_process_stops_running_and_queued_tasks(
    modern: TaskClient, other: TaskClient, live: Installation, nonce: str
) -> None:
    running = [modern.start("work", nonce=f"{nonce}-{number}", steps=600)["taskId"] for number in range(2)]
    for number in range(2):
        live.started(f"{nonce}-{number}", "alive")
    queued = modern.start("work", nonce=f"{nonce}-queued", steps=600)["taskId"]
    other.cancel(queued)
    assert other.task(queued)["status"] == "cancelled"
    for task_id in running:
        other.cancel(task_id)
    sent = time.monotonic()
    for number, task_id in enumerate(running):
        assert other.settled(task_id)["status"] == "cancelled"
        assert live.lines(f"{nonce}-{number}", "stopped")[-1].at - sent < 2.5 + SLACK
    assert live.lines(f"{nonce}-queued") == []
    other.cancel(queued)


@pytest.mark.requirement("CEL-10", "CEL-03")
def test_task_of_a_killed_process_restarts_or_fails(
    modern: TaskClient, other: TaskClient, live: Installation, nonce: str
) -> None:
    once = modern.start("work_once", nonce=f"{nonce}-once", steps=30)["taskId"]
    again = modern.start("work", nonce=f"{nonce}-again", steps=30)["taskId"]
    for name in ("once", "again"):
        os.kill(live.started(f"{nonce}-{name}", "alive").pid, signal.SIGKILL)
    lost = other.settled(once, 60)
    assert lost["status"] == "failed"
    assert "interrupted" in lost["error"]["message"] == lost["statusMessage"]
    assert text_of(other.settled(again, 60)).startswith(nonce)
    assert len(live.lines(f"{nonce}-once", "start")) == 1


@pytest.mark.requirement("TASKX-24")
def test_legacy_client_waits_for_a_task_only_tool(
    modern: TaskClient, live: Installation, open_session: OpenSession, nonce: str
) -> None:
    with closing(Modern.at(live.ports[0])) as undeclared:
        refused = undeclared.post("tools/call", {"name": "long_work", "arguments": {"nonce": nonce}})
    assert (refused.status, refused.json()["error"]["code"]) == (400, -32021)
    legacy = open_session("2025-06-18")
    with start_call(legacy, "long_work", nonce=nonce) as stream:
        assert text_of(stream.messages(30)[-1]) == nonce
    assert len(live.lines(nonce, "start")) == 1
    made = modern.start("long_work", nonce=f"{nonce}-task")
    assert text_of(modern.settled(made["taskId"])) == f"{nonce}-task"


@pytest.mark.requirement("TASKX-08", "TASKX-09", "TASKX-16", "TASKX-23")
def test_task_question_is_answered_through_any_process_and_runs_once(live: Installation, nonce: str) -> None:
    capabilities = {**DECLARED, "elicitation": {}}
    with (
        closing(TaskClient.at(live.ports[0], capabilities=capabilities)) as asker,
        closing(TaskClient.at(live.ports[1], capabilities=capabilities)) as answerer,
    ):
        task_id = asker.start("ask_slowly", nonce=nonce)["taskId"]
        filter_ = {"notifications": {"taskIds": [task_id]}}
        with answerer.open("subscriptions/listen", filter_) as stream:
            assert stream.message(10)["params"]["notifications"] == {"taskIds": [task_id]}
            told = stream.message(20)["params"]
            while told["status"] == "working":
                told = stream.message(20)["params"]
            assert told["status"] == "input_required"
            (name,) = told["inputRequests"]
            wrong = {name: {"action": "accept", "content": {"value": 7}}}
            answerer.post("tasks/update", {"taskId": task_id, "inputResponses": wrong})
            while told["status"] != "input_required" or name in told["inputRequests"]:
                told = stream.message(20)["params"]
            # The next request has another name.
            (again,) = told["inputRequests"]
            right = {again: {"action": "accept", "content": {"value": "Ada"}}}
            for _ in range(2):
                asker.post("tasks/update", {"taskId": task_id, "inputResponses": right})
            while told["status"] != "completed":
                told = stream.message(20)["params"]
        assert text_of(told) == text_of(answerer.task(task_id)) == "Hello, Ada!"
    assert len(live.lines(nonce, "start")) == 3
