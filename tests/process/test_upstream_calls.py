"""Calls of another server run in web processes and in a real worker, and share sessions over processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from signal import SIGKILL
from typing import Any

import pytest

from tests.clients.modern import Modern
from tests.clients.raw_http import Mcp, NotHttp
from tests.servers.asking_server import Asker, asking_server
from tests.servers.live import LiveServer, eventually
from tests.servers.sdk_server import SdkServer, sdk_server
from tests.servers.task_server import TaskServer, task_server

ADD = """
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.upstreams import importing, refreshing, storing
row = storing.save_upstream(actor=None, name="crm", url={url!r}, era="legacy")
refreshing.refresh(upstream=row, actor=None)
row.refresh_from_db()
tools = ["search", "steps", "counter", "wait", "greet"]
done = importing.import_items(upstream=row, keys=tools, actor=None, publish=True)
assert not done.skipped, done.skipped
from mcp_app.models import Tool
for name in ("crm_steps", "crm_wait"):
    services.update_entry(entry=Tool.objects.get(name=name), actor=None, background=True)
for name, era in (("later", "legacy"), ("new", "modern")):
    row = storing.save_upstream(actor=None, name=name, url={url!r}, era=era)
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    done = importing.import_items(upstream=row, keys=["greet"], actor=None, publish=True)
    assert not done.skipped, done.skipped
services.update_entry(entry=Tool.objects.get(name="later_greet"), actor=None, background=True)
row = storing.save_upstream(actor=None, name="asker", url={asker!r}, era="legacy")
refreshing.refresh(upstream=row, actor=None)
row.refresh_from_db()
done = importing.import_items(upstream=row, keys=["ask"], actor=None, publish=True)
assert not done.skipped, done.skipped
row = storing.save_upstream(actor=None, name="tasks", url={tasks!r}, era="legacy")
refreshing.refresh(upstream=row, actor=None)
row.refresh_from_db()
done = importing.import_items(upstream=row, keys=["slow"], actor=None, publish=True)
assert not done.skipped, done.skipped
services.update_entry(entry=Tool.objects.get(name="tasks_slow"), actor=None, background=True, retries=2)
"""

SENT = """
from mcp_app.models import Message
found = Message.objects.filter(target={tool!r}, kind="request", direction="in").order_by("pk").last()
print((found and found.outgoing) or "")
"""


@pytest.fixture(scope="module")
def site() -> Iterator[SdkServer]:
    with sdk_server() as found:
        yield found


@pytest.fixture(scope="module")
def asker() -> Iterator[Asker]:
    found = Asker()
    with asking_server(found):
        yield found


@pytest.fixture(scope="module")
def tasks() -> Iterator[TaskServer]:
    found = TaskServer()
    with task_server(found):
        yield found


@pytest.fixture(scope="module")
def live(site: SdkServer, asker: Asker, tasks: TaskServer) -> Iterator[LiveServer]:
    with LiveServer(2, worker=True, env={"DEMO": "off", "EGRESS_ALLOW": "127.0.0.0/8"}) as server:
        server.shell(ADD.format(url=site.url, asker=asker.url, tasks=tasks.url))
        yield server


def opened(
    live: LiveServer,
    process: int = 0,
    capabilities: dict[str, Any] | None = None,
    token: str | None = None,
) -> Mcp:
    client = live.mcp(process, token)
    client.initialize(capabilities=capabilities)
    eventually(lambda: "crm_search" in str(client.call("tools/list")), what="the new tools")
    return client


def test_background_call_runs_in_a_worker_with_progress(live: LiveServer) -> None:
    with closing(opened(live)) as client:
        params = {"name": "crm_steps", "arguments": {"number": 3}, "_meta": {"progressToken": 7}}
        with client.open_call("tools/call", params) as stream:
            *before, last = stream.messages()
    progress = [each["params"]["progress"] for each in before if each["method"] == "notifications/progress"]
    assert last["result"]["content"][0]["text"] == "3 steps"
    assert progress[-1] == 3


def is_logged(live: LiveServer, tool: str, answer: str) -> bool:
    return answer in live.shell(SENT.format(tool=tool))


def test_requests_of_a_call_are_logged_beside_it(live: LiveServer) -> None:
    with closing(opened(live)) as client:
        client.tool("crm_search", query="logged")
        client.tool("crm_steps", number=2)
    for tool, answer in (("crm_search", "10 of logged"), ("crm_steps", "2 steps")):
        eventually(partial(is_logged, live, tool, answer), what="the message")
        *_, sent = json.loads(live.shell(SENT.format(tool=tool)))
        assert (sent["method"], sent["status"], sent["problem"]) == ("POST", 200, "")
        assert json.loads(sent["body"])["params"]["name"] == tool.removeprefix("crm_")
        assert answer in sent["answer"]
        assert dict(sent["headers"])["Mcp-Session-Id"] == "[redacted]"
        assert sent["sent"] == len(sent["body"])
        assert sent["ms"] > 0


KEY = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
root = get_user_model().objects.create_superuser("root", password="x")
print(issue_api_key(user=root, name="stopped")[1])
"""
REVOKE = """
from mcp_app.auth.api_keys import revoke_api_key
from mcp_app.models import ApiKey
assert revoke_api_key(key=ApiKey.objects.get()).sessions == 1
"""
STOP = """
from mcp_app.execution.services import cancel_call
from mcp_app.models import Call
assert cancel_call(call_id=Call.objects.get(tool="crm_wait", state="running").pk, actor=None)
"""
CANCELS: dict[str, Callable[[LiveServer, Mcp], object]] = {
    "client": lambda _, mcp: mcp.notify("notifications/cancelled", {"requestId": mcp.next_id}),
    "operator": lambda live, _: live.shell(STOP),
    "revoked key": lambda live, _: live.shell(REVOKE),
}


@pytest.mark.parametrize("by", CANCELS)
def test_cancelled_background_call_is_cancelled_at_the_server(
    live: LiveServer, site: SdkServer, by: str
) -> None:
    token = live.shell(KEY).strip().splitlines()[-1] if by == "revoked key" else None
    site.waiting.clear()
    site.stopped.clear()
    params = {"name": "crm_wait", "arguments": {}}
    with closing(opened(live, token=token)) as client, client.open_call("tools/call", params):
        assert site.waiting.wait(20)
        assert not site.stopped.is_set()
        CANCELS[by](live, client)
        assert site.stopped.wait(20)


def test_task_of_a_server_continues_after_the_worker_died(live: LiveServer, tasks: TaskServer) -> None:
    with closing(opened(live)) as client:
        with client.open_call("tools/call", {"name": "tasks_slow", "arguments": {}}) as stream:
            assert tasks.polled.wait(20)
            live.restart_worker(how=SIGKILL)
            tasks.polled.clear()
            assert tasks.polled.wait(60), "another attempt polls the same task"
            tasks.states = [{"status": "completed"}]
            *_, last = stream.messages()
        assert last["result"]["content"][0]["text"] == "done"
        assert tasks.methods.count("tools/call") == 1


def test_cancelled_call_cancels_the_task_at_the_server(live: LiveServer, tasks: TaskServer) -> None:
    tasks.states = [{"status": "working"}]
    tasks.polled.clear()
    params = {"name": "tasks_slow", "arguments": {}}
    with closing(opened(live)) as client, client.open_call("tools/call", params):
        assert tasks.polled.wait(20)
        client.notify("notifications/cancelled", {"requestId": client.next_id})
        assert tasks.cancelled.wait(20)


def test_processes_use_one_session_for_a_client(live: LiveServer) -> None:
    with ExitStack() as stack:
        found = [stack.enter_context(closing(opened(live))) for _ in range(2)]
        at = [[stack.enter_context(closing(each.via(port))) for each in found] for port in live.ports]
        for number, client in enumerate(client for clients in at for client in clients):
            client.next_id += 1_000 * number
        answers = [client.tool("crm_counter") for _ in range(2) for clients in at for client in clients]
        counts = [answer["result"]["content"][0]["text"] for answer in answers]
    assert counts == ["1", "1", "2", "2", "3", "3", "4", "4"]


CLIENTS, CALLS = 20, 50


@pytest.mark.requirement("INT-62")
def test_sessions_stay_apart_while_a_process_is_killed(live: LiveServer, site: SdkServer) -> None:
    before = {*site.counts}
    half = threading.Barrier(CLIENTS + 1, timeout=60)
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(opened(live, number % 2))) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            runs = [pool.submit(counted, live, client, half) for client in clients]
            half.wait()
            live.restart(1, SIGKILL)
            counts = [run.result() for run in runs]
    of_sessions = sorted(count for number, count in site.counts.items() if number not in before)
    # The answer to a call of the killed process is lost, but never counted for another client.
    assert len(of_sessions) == CLIENTS
    assert all(found == sorted({*found}) for found in counts)
    assert sorted(found[-1] for found in counts) == of_sessions


def counted(live: LiveServer, client: Mcp, half: threading.Barrier) -> list[int]:
    """Return the counts that a client sees, over both processes."""
    found: list[int] = []
    with ExitStack() as stack:
        at = [stack.enter_context(closing(client.via(port))) for port in live.ports]
        at[1].next_id += 10_000
        for number in range(CALLS):
            if number == CALLS // 2:
                half.wait()
            try:
                answer = at[number % 2].tool("crm_counter")
            except (OSError, AssertionError, NotHttp):
                # The process is away for a moment.
                answer = at[0].tool("crm_counter")
            found.append(int(answer["result"]["content"][0]["text"]))
    return found


# Questions.

FORMS: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def filled(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the answers to questions for a name and a greeting."""
    texts = {
        key: "Hello" if "greeting" in each["params"]["message"] else "Ada" for key, each in asked.items()
    }
    return {key: {"action": "accept", "content": {"text": text}} for key, text in texts.items()}


def round_of(live: LiveServer, process: int, tool: str, result: dict[str, Any] | None = None) -> Any:
    """Call a tool, or answer the questions of its last result, at one process."""
    params: dict[str, Any] = {"name": tool, "arguments": {}}
    if result is not None:
        params |= {"inputResponses": filled(result["inputRequests"]), "requestState": result["requestState"]}
    with closing(Modern.at(live.ports[process], capabilities=FORMS)) as client:
        return client.post("tools/call", params).json()["result"]


@pytest.mark.requirement("INT-64")
@pytest.mark.parametrize("tool", ["crm_greet", "new_greet"])
def test_answers_at_another_process_continue_the_call(live: LiveServer, tool: str) -> None:
    first = round_of(live, 0, tool)
    second = round_of(live, 1, tool, first)
    assert [*second["inputRequests"]] != [*first["inputRequests"]]
    assert round_of(live, 0, tool, second)["content"][0]["text"] == "Hello, Ada"


@pytest.mark.requirement("INT-64")
def test_background_task_asks_between_its_runs(live: LiveServer) -> None:
    with closing(Modern.at(live.ports[0], capabilities={**FORMS, **TASKS})) as client:
        task = client.post("tools/call", {"name": "later_greet", "arguments": {}}).json()["result"]["taskId"]

        def state() -> Any:
            return client.post("tasks/get", {"taskId": task}).json()["result"]

        for _ in range(2):
            eventually(lambda: state()["status"] == "input_required", 30, "the question")
            answers = {"taskId": task, "inputResponses": filled(state()["inputRequests"])}
            assert "result" in client.post("tasks/update", answers).json()
        eventually(lambda: state()["status"] == "completed", 30, "the end of the task")
        assert state()["result"]["content"][0]["text"] == "Hello, Ada"


@pytest.mark.requirement("INT-64")
def test_background_call_asks_a_legacy_client_from_the_worker(live: LiveServer) -> None:
    with ExitStack() as stack:
        client = stack.enter_context(closing(opened(live, capabilities=FORMS)))
        other = stack.enter_context(closing(client.via(live.ports[1])))
        stream = stack.enter_context(client.open_call("tools/call", {"name": "later_greet", "arguments": {}}))
        for text in ("Ada", "Hello"):
            question = stream.message()
            other.respond(question["id"], {"action": "accept", "content": {"text": text}})
        assert stream.message()["result"]["content"][0]["text"] == "Hello, Ada"


@pytest.mark.requirement("INT-71")
def test_server_that_ends_during_a_question_is_named_at_once(live: LiveServer, asker: Asker) -> None:
    params = {"name": "asker_ask", "arguments": {}}
    with (
        closing(opened(live, capabilities=FORMS)) as client,
        client.open_call("tools/call", params) as stream,
    ):
        question = stream.message()
        asker.cut()
        withdrawn, last = stream.messages()
    assert withdrawn["params"]["requestId"] == question["id"]
    assert last["result"]["content"][0]["text"].startswith("The server asker ended its answer")


def test_withdrawn_question_is_withdrawn_at_the_client(live: LiveServer, asker: Asker) -> None:
    params = {"name": "asker_ask", "arguments": {}}
    with (
        closing(opened(live, capabilities=FORMS)) as client,
        client.open_call("tools/call", params) as stream,
    ):
        question = stream.message()
        asker.withdraw("Never mind")
        withdrawn, last = stream.messages()
    assert withdrawn["params"]["requestId"] == question["id"]
    assert last["result"]["content"][0]["text"] == "Never mind"


@pytest.mark.requirement("INT-71")
def test_killed_process_loses_only_questions_of_open_streams(live: LiveServer) -> None:
    asked = {tool: round_of(live, 0, tool) for tool in ("asker_ask", "new_greet")}
    live.restart(0, SIGKILL)
    lost = round_of(live, 1, "asker_ask", asked["asker_ask"])
    assert "The server asker no longer waits for the answer" in lost["content"][0]["text"]
    assert round_of(live, 1, "new_greet", asked["new_greet"])["inputRequests"]
