"""2025-11-25 tasks: creation, status, result, listing, cancellation, expiry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcp_app import Context
from mcp_app.auth.principal import LOOPBACK
from mcp_app.execution.background import reaper
from mcp_app.execution.background.answer_streams import publish
from mcp_app.execution.calls.reply import Answered
from mcp_app.execution.stored import records
from mcp_app.models import Call, TaskWait
from mcp_app.protocol.call_state import State
from mcp_app.protocol.messages import jsonrpc
from mcp_app.streams.gateway import Streams
from tests.samples.published_schema import problems
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.core_desk import ADA, BOB, RESULT, VERSION, CoreDesk, start
from tests.unit.handlers.desk import move_to_another_server, offer

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

RELATED = "io.modelcontextprotocol/related-task"


def work(ctx: Context, month: int = 1) -> str:
    """Works."""
    return "done"


@pytest.fixture
async def core(streams: Streams) -> AsyncIterator[CoreDesk]:
    made = CoreDesk(streams)
    await made.enter()
    offer(
        tools=[
            tool_entry(work, background=True),
            tool_entry(work, 2, name="long", background=True, task_required=True),
            tool_entry(work, 3, name="watched", background=True, needs_approval=True, four_eyes=True),
            tool_entry(work, 4, name="small"),
            tool_entry(work, 5, name="seldom", background=True, calls_per_minute=1),
        ]
    )
    yield made
    await made.process.calls.close(0.01)


async def _capabilities(desk: CoreDesk, version: str = VERSION) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    found: dict[str, Any] = (await desk.initialize(params))["result"]["capabilities"]
    return found


@pytest.mark.requirement("TASK4-01", "TASK4-06")
async def test_tasks_capability_is_declared_only_with_workers(core: CoreDesk, streams: Streams) -> None:
    every = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert (await _capabilities(core))["tasks"] == every
    assert "tasks" not in await _capabilities(core, "2025-06-18")
    core.principal = LOOPBACK
    assert (await _capabilities(core))["tasks"] == {name: every[name] for name in ("cancel", "requests")}
    for settings in ({"core_tasks": False}, {"redis_url": ""}):
        assert "tasks" not in await _capabilities(CoreDesk(streams, **settings))


@pytest.mark.requirement("TASK4-01")
@pytest.mark.parametrize(
    ("version", "settings"),
    [("2025-06-18", {}), (VERSION, {"core_tasks": False}), (VERSION, {"redis_url": ""})],
)
async def test_undeclared_tasks_ignore_task_member_and_reject_task_methods(
    core: CoreDesk, streams: Streams, version: str, settings: dict[str, Any]
) -> None:
    desk = CoreDesk(streams, **settings)
    await desk.enter(version=version)
    for task in ({"ttl": 5}, 7):
        answered = await desk.say("tools/call", name="small", task=task)
        assert answered["result"]["content"] == RESULT["content"]
    for method in ("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"):
        assert (await desk.say(method, taskId="x"))["error"]["code"] == -32601


@pytest.mark.requirement("TASK4-02")
@pytest.mark.parametrize(
    ("tool", "more", "code"),
    [
        ("small", {"task": {}}, -32601),
        ("long", {}, -32601),
        ("long", {"task": {}}, None),
        ("work", {"task": {}}, None),
        ("small", {}, None),
        ("work", {"task": []}, -32602),
        ("work", {"task": {"ttl": "long"}}, -32602),
        ("work", {"task": {"ttl": True}}, -32602),
        ("work", {"task": {"ttl": -1}}, -32602),
        # An invalid call is an error for a client that requested a task: it has no result without one.
        ("work", {"task": {}, "arguments": {"month": "May"}}, -32602),
        ("watched", {"task": {}}, -32602),
        ("nothing", {"task": {}}, -32602),
    ],
)
async def test_call_follows_task_support_of_tool(
    core: CoreDesk, tool: str, more: dict[str, Any], code: int | None
) -> None:
    answered = await core.say("tools/call", name=tool, **more)
    assert answered.get("error", {}).get("code") == code
    assert ("task" in answered.get("result", {})) == (code is None and "task" in more)
    assert await Call.objects.aexists() == (code is None and "task" in more)


@pytest.mark.requirement("TASK4-13")
async def test_tool_rate_limit_refuses_task(core: CoreDesk) -> None:
    await core.make("seldom")
    refused = await core.say("tools/call", name="seldom", task={})
    assert refused["error"]["data"]["refusal"] == "rate_limited"


@pytest.mark.requirement("TASK4-03", "TASK4-04", "TASK4-12", "CEL-01")
@pytest.mark.parametrize(
    ("wished", "given"),
    [(None, 86_400_000), (60_000, 60_000), (10**12, 86_400_000), (0, 1_000), (1_500.5, 1_500)],
)
async def test_task_is_stored_before_answer_with_bounded_ttl(
    core: CoreDesk, wished: int | None, given: int
) -> None:
    made = await core.make(ttl=wished)
    assert (made["status"], made["ttl"], made["pollInterval"]) == ("working", given, 1_000)
    row = await Call.objects.aget(pk=made["taskId"])
    assert (row.state, row.principal) == (State.ACCEPTED, ADA.key)
    assert await core.get(made["taskId"]) == made
    assert not await core.told()


@pytest.mark.requirement("TASK4-03")
async def test_identical_request_returns_same_task(core: CoreDesk) -> None:
    params = {"name": "work", "task": {}, "arguments": {"month": 5}}
    first, again = [await core.request("tools/call", params, "one") for _ in range(2)]
    assert first == again
    other = await core.request("tools/call", {**params, "arguments": {"month": 6}}, "one")
    assert other["result"]["task"]["taskId"] != first["result"]["task"]["taskId"]


async def test_request_id_is_reusable_after_client_named_its_task(
    core: CoreDesk,
) -> None:
    params = {"name": "work", "task": {}, "arguments": {"month": 5}}
    made = []
    for _ in range(3):
        made.append((await core.request("tools/call", params, 1))["result"]["task"]["taskId"])
        assert (await core.request("tasks/get", {"taskId": made[-1]}, 1))["result"]["taskId"] == made[-1]
    assert len(set(made)) == 3


@pytest.mark.requirement("TASK4-08", "TASK4-05", "TASK4-09")
@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"result": {**RESULT, "_meta": {"a": 1}}}, "completed", None),
        ({"result": {**RESULT, "isError": True}}, "failed", "done"),
        (
            {"result": {"content": [], "isError": True}},
            "failed",
            "The tool reported an error: its result says which.",
        ),
        ({"error": {"code": -32603, "message": "no", "data": {"a": 1}}}, "failed", "no"),
    ],
)
async def test_task_ends_once_with_answer_of_its_call(
    core: CoreDesk, answer: dict[str, Any], status: str, words: str | None
) -> None:
    task_id = (await core.make())["taskId"]
    waits = [await core.wait(task_id, request_id) for request_id in ("before", 77)]
    await core.work(task_id, **answer)
    seen = await core.get(task_id)
    assert (seen["status"], seen.get("statusMessage")) == (status, words)
    after = await core.request("tasks/result", {"taskId": task_id}, "after")
    answers = [*[(await core.told(stream))[-1] for stream in waits], after]
    assert [found.pop("id") for found in answers] == ["before", 77, "after"]
    expected = {"jsonrpc": "2.0", **answer}
    if "result" in answer:
        meta = {**answer["result"].get("_meta", {}), RELATED: {"taskId": task_id}}
        expected["result"] = {**answer["result"], "_meta": meta}
        assert problems(VERSION, "CallToolResult", after["result"]) == []
    assert answers == [expected] * 3
    refused = await core.say("tasks/cancel", taskId=task_id)
    assert refused["error"]["code"] == -32602
    assert (await core.get(task_id))["status"] == status


@pytest.mark.requirement("TASK4-05")
async def test_large_integers_survive_in_task_result(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    call = await start(task_id)
    encoded = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"n":%d}}}' % 10**30
    await sync_to_async(records.finish)(call.id, call.attempt, State.COMPLETED, "ok", encoded)
    request = jsonrpc.Request(1, "tasks/result", {"taskId": task_id})
    outcome = await core.process.dispatcher.request(core.asked(principal=ADA), request, b"{}")
    assert isinstance(outcome, Answered)
    assert b'"n":%d' % 10**30 in outcome.body


@pytest.mark.requirement("TASK4-07", "TASK4-05")
@pytest.mark.parametrize("is_running", [False, True])
async def test_cancelled_task_is_final_before_answer(core: CoreDesk, is_running: bool) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "waiting")
    call = await start(task_id) if is_running else None
    result = (await core.say("tasks/cancel", taskId=task_id))["result"]
    assert problems(VERSION, "CancelTaskResult", result) == []
    assert (result["taskId"], result["status"]) == (task_id, "cancelled")
    assert (await core.told(stream))[-1]["error"]["code"] == -32800
    if call is not None:
        late = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT})
        assert not (await sync_to_async(records.check_attempt)(call.id, call.attempt)).held
        finished = await sync_to_async(records.finish)(call.id, call.attempt, State.COMPLETED, "ok", late)
        assert not finished
    else:
        assert await sync_to_async(records.claim)(task_id, "worker") is None
    assert (await core.get(task_id))["status"] == "cancelled"
    assert (await core.say("tasks/cancel", taskId=task_id))["error"]["code"] == -32602


@pytest.mark.requirement("CAN-09", "CAN-01")
async def test_cancelled_result_request_stops_waiting_but_not_task(core: CoreDesk) -> None:
    made = await core.request("tools/call", {"name": "work", "task": {}}, "made")
    task_id = made["result"]["task"]["taskId"]
    stream = await core.wait(task_id, "waiting")
    for request_id in ("made", "waiting"):
        await core.notify("notifications/cancelled", {"requestId": request_id})
    assert [found["error"]["code"] for found in await core.told(stream)] == [-32800]
    assert (await core.get(task_id))["status"] == "working"
    await core.end(task_id)
    assert len(await core.told(stream)) == 1


@pytest.mark.requirement("TASK4-12", "TASK4-14")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_foreign_expired_or_unknown_task_is_not_found(core: CoreDesk, method: str) -> None:
    own, expired = [(await core.make())["taskId"] for _ in range(2)]
    await core.enter(BOB)
    foreign = (await core.make())["taskId"]
    await core.enter(ADA)
    await Call.objects.filter(pk=expired).aupdate(task_until=timezone.now() - timedelta(seconds=1))
    newer = await Call.objects.aget(pk=foreign)
    newer.pk, newer.principal, newer.request_key = uuid4(), ADA.key, "newer"
    newer.session_fields = {**newer.session_fields, "version": "2026-07-28"}
    await newer.asave(force_insert=True)
    for task_id in (str(uuid4()), "x", "", own.upper(), foreign, expired, str(newer.pk), 7, None):
        refused = await core.say(method, taskId=task_id)
        assert refused["error"]["code"] == -32602
    assert not await Call.objects.filter(state=State.CANCELLED).aexists()


@pytest.mark.requirement("TASK4-14", "TASK4-12")
async def test_task_outlives_its_session(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    waiting = await core.wait(task_id, 50)
    before = core.session
    await core.process.dispatcher.end_session(before, "ended by the client")
    await core.enter()
    assert (await core.get(task_id))["status"] == "working"
    stream = await core.wait(task_id, 51)
    await core.end(task_id)
    assert (await core.told(stream))[-1]["id"] == 51
    assert await core.told(waiting, before) == []


@pytest.mark.requirement("TASK4-06")
async def test_task_list_pages_through_own_tasks(streams: Streams, core: CoreDesk) -> None:
    desk = CoreDesk(streams, page_size=2)
    await desk.enter(BOB)
    await desk.make()
    await desk.enter(ADA)
    await move_to_another_server((await desk.make())["taskId"])
    made = [(await desk.make())["taskId"] for _ in range(5)]
    for number, task_id in enumerate(made):  # Tasks accepted within one millisecond have no defined order.
        accepted = timezone.now() + timedelta(milliseconds=number)
        await Call.objects.filter(pk=task_id).aupdate(accepted_at=accepted)
    await desk.end(made[1], isError=True)
    await desk.end(made[2])
    await Call.objects.filter(pk=made[0]).aupdate(task_until=timezone.now())
    seen: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while cursor is not None:
        page = (await desk.say("tasks/list", **cursor))["result"]
        assert problems(VERSION, "ListTasksResult", page) == []
        assert len(page["tasks"]) <= 2
        seen += page["tasks"]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None  # type: ignore[assignment]
    assert [task["taskId"] for task in seen] == made[:0:-1]
    assert [task["status"] for task in seen] == ["working", "working", "completed", "failed"]
    first = (await desk.say("tasks/list"))["result"]["nextCursor"]
    await desk.enter(BOB)
    for cursor_ in (first, "x", 7):
        assert (await desk.say("tasks/list", cursor=cursor_))["error"]["code"] == -32602
    await desk.enter(LOOPBACK)
    assert (await desk.say("tasks/list"))["error"]["code"] == -32601


@pytest.mark.requirement("TASK4-13")
async def test_task_requests_are_rate_limited(streams: Streams, core: CoreDesk) -> None:
    desk = CoreDesk(streams, core_task_requests_per_minute=2, max_open_background_calls_per_principal=1)
    await desk.enter()
    task_id = (await desk.make())["taskId"]
    refused = await desk.say("tools/call", name="work", task={})
    assert (desk.status, "Too many" in refused["error"]["message"]) == (429, True)
    assert [("result" in await desk.say("tasks/get", taskId=task_id)) for _ in range(3)] == [
        True,
        True,
        False,
    ]
    assert desk.status == 429


@pytest.mark.requirement("TASK4-13")
async def test_waiters_of_one_task_are_bounded_and_oldest_dropped(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    streams_ = [await core.wait(task_id, f"w{number}") for number in range(22)]
    assert await TaskWait.objects.acount() == 20
    ended = [bool(await core.told(stream)) for stream in streams_]
    assert ended == [True, True, *[False] * 20]


@pytest.mark.requirement("TASK4-10", "TASK4-09", "PROG-06")
async def test_session_receives_progress_and_status_of_its_task(core: CoreDesk) -> None:
    task_id = (await core.make(_meta={"progressToken": "p"}))["taskId"]
    progress = {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progressToken": "p", "progress": 1},
    }
    await core.work(task_id, result=RESULT, says=[progress])
    told = await core.told()
    assert [message["method"] for message in told] == ["notifications/progress", "notifications/tasks/status"]
    assert told[0] == progress
    assert problems(VERSION, "TaskStatusNotification", told[1]) == []
    assert told[1]["params"] == await core.get(task_id)


@pytest.mark.requirement("TASK4-05")
async def test_lost_result_stream_is_rebuilt(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "waiting")
    await core.streams.log.drop(core.session.id, stream)
    background = core.process.background
    assert await background.lost_stream(core.session.id, stream) is not None
    assert await background.lost_stream(core.session.id, "wait-unknown") is None
    await core.end(task_id)
    await core.streams.log.drop(core.session.id, stream)
    assert await background.complete(core.session.id, stream)
    assert [found["id"] for found in await core.told(stream)] == ["waiting"]


@pytest.mark.requirement("TASK4-05", "CEL-03")
async def test_unpublished_task_result_is_published_by_sweep(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    stream = await core.wait(task_id, "waiting")
    call = await start(task_id)
    encoded = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT})
    await sync_to_async(records.finish)(call.id, call.attempt, State.COMPLETED, "ok", encoded)
    assert await core.told(stream) == []
    for unpublished in await sync_to_async(records.unpublished)(-1):
        assert await publish(core.streams, unpublished, unpublished.answer)
    assert [found["id"] for found in await core.told(stream)] == ["waiting"]
    assert not await sync_to_async(records.unpublished)(-1)


@pytest.mark.requirement("TASK4-12", "CEL-04")
async def test_expired_task_is_stopped_and_deleted_with_its_waits(core: CoreDesk) -> None:
    task_id = (await core.make())["taskId"]
    await core.wait(task_id, "waiting")
    long_ago = timezone.now() - timedelta(days=30)
    await Call.objects.aupdate(task_until=long_ago)
    assert await sync_to_async(reaper.sweep)() >= 1
    row = await Call.objects.aget()
    assert row.state == State.CANCELLED
    await Call.objects.aupdate(accepted_at=long_ago, finished_at=long_ago)
    assert await sync_to_async(records.purge)() == 1
    assert not await TaskWait.objects.aexists()
