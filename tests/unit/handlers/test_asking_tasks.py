"""Questions of tasks: suspended without a worker, answered by key, resumed once, or asked before creation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcp_app import Context
from mcp_app.execution.background import reaper
from mcp_app.execution.background.celery import waiting
from mcp_app.execution.services import cancel_call
from mcp_app.execution.stored import records, task_records
from mcp_app.execution.stored.next_call import RunningLimits, take
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.protocol.messages import idempotency
from mcp_app.streams.gateway import Streams
from tests.racing import at_once
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.desk import offer
from tests.unit.handlers.modern_desk import DECLARED, RESULT, ModernDesk, start, suspend

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ROOTS: dict[str, Any] = {"roots": []}


async def name_of(ctx: Context, greeting: str = "Hello") -> str:
    """Asks."""
    return str((await ctx.aelicit("What is your name?", NAME, key="user_name")).content["name"])


async def greet(ctx: Context, greeting: str = "Hello") -> str:
    """Greets."""
    return f"{greeting}, {await name_of(ctx)}!"


@pytest.fixture
async def modern(streams: Streams) -> AsyncIterator[ModernDesk]:
    made = ModernDesk(streams, redis_url="redis://nowhere.invalid", grace_seconds=0.05)
    offer(
        tools=[
            tool_entry(greet, name="work", background=True),
            tool_entry(greet, 2, task_required=True, asks_first=name_of),
        ]
    )
    yield made
    await made.process.calls.close(0.01)


@pytest.mark.requirement("TASKX-08", "TASKX-06", "CEL-02")
async def test_suspended_task_holds_no_worker_and_resumes_on_last_answer(
    modern: ModernDesk,
) -> None:
    task_id = (await modern.make())["taskId"]
    call = await suspend(task_id, "a", "b")
    seen = await modern.get(task_id)
    assert seen["status"] == "input_required"
    assert seen["inputRequests"] == {key: {"method": "roots/list", "params": {}} for key in ("a", "b")}
    row = await Call.objects.aget()
    assert (row.state, row.lease_until) == (State.INPUT_REQUIRED, None)

    queued = waiting("celery")
    await modern.update(task_id, a=ROOTS, unknown=ROOTS)
    assert (await modern.get(task_id))["inputRequests"].keys() == {"b"}
    await modern.update(task_id, a={"roots": [1]})
    assert waiting("celery") == queued
    await modern.update(task_id, b=ROOTS)
    seen = await modern.get(task_id)
    assert (seen["status"], "inputRequests" in seen) == ("working", False)
    assert waiting("celery") == queued + 1
    await modern.update(task_id, b=ROOTS)
    assert waiting("celery") == queued + 1

    resumed = await start(task_id)
    assert resumed.attempt == call.attempt + 1
    assert resumed.max_attempts == call.max_attempts + 1
    assert resumed.inputs is not None
    assert resumed.inputs["responses"] == {"a": ROOTS, "b": ROOTS}


@pytest.mark.requirement("TASKX-08", "CEL-02")
async def test_exactly_one_racing_answer_resumes_task(modern: ModernDesk) -> None:
    task_id = (await modern.make())["taskId"]
    keys = [f"k{number}" for number in range(8)]
    await suspend(task_id, *keys)
    queued = waiting("celery")
    row = await Call.objects.aget()
    answers = [partial(task_records.answer, row.pk, {key: ROOTS}) for key in keys]
    outcomes = await sync_to_async(at_once, thread_sensitive=False)(answers)
    assert [found[1] for found in outcomes if found].count(True) == 1
    assert waiting("celery") == queued  # The caller enqueues the job, and this test has no caller.
    assert (await Call.objects.aget()).state == State.ACCEPTED


@pytest.mark.requirement("TASKX-10", "CEL-05")
@pytest.mark.parametrize("by", ["client", "operator"])
async def test_suspended_task_is_cancelled_immediately(by: str, modern: ModernDesk) -> None:
    task_id = (await modern.make())["taskId"]
    call = await suspend(task_id, "a")
    if by == "client":
        await modern.ask("tasks/cancel", {"taskId": task_id})
    else:
        assert await sync_to_async(cancel_call)(call_id=call.id, actor=None)
    assert (await modern.get(task_id))["status"] == "cancelled"
    await modern.update(task_id, a=ROOTS)
    assert (await modern.get(task_id))["status"] == "cancelled"


async def test_suspended_attempt_cannot_renew_expire_or_release(modern: ModernDesk) -> None:
    task_id = (await modern.make())["taskId"]
    call = await suspend(task_id, "a")
    assert not (await sync_to_async(records.renew)(call.id, call.attempt, None)).held
    assert await sync_to_async(records.expired)() == []
    assert not await sync_to_async(records.release)(call.id, call.attempt)
    row = await Call.objects.aget()
    assert (row.state, row.lease_until) == (State.INPUT_REQUIRED, None)


async def test_cancelled_attempt_cannot_suspend(modern: ModernDesk) -> None:
    task_id = (await modern.make())["taskId"]
    call = await start(task_id)
    await modern.ask("tasks/cancel", {"taskId": task_id})
    assert not await sync_to_async(task_records.suspend)(call.id, call.attempt, {"open": {}})
    assert (await Call.objects.aget()).state == State.RUNNING


async def test_suspended_task_does_not_count_as_running(modern: ModernDesk) -> None:
    first, second = [(await modern.make())["taskId"] for _ in range(2)]
    await suspend(first, "a")
    claimed = await sync_to_async(take)(second, "worker", RunningLimits({"work": 1}, 0))
    assert claimed is not None
    assert str(claimed.id) == second


@pytest.mark.requirement("TASKX-19", "CEL-10")
async def test_expired_tasks_are_cancelled_or_asked_to_stop(modern: ModernDesk) -> None:
    queued, asking, running = [(await modern.make())["taskId"] for _ in range(3)]
    await suspend(asking, "a")
    await start(running)
    await Call.objects.aupdate(task_until=timezone.now() - timedelta(seconds=1))
    await sync_to_async(reaper.sweep)()
    rows = {str(row.pk): row async for row in Call.objects.all()}
    states = {task_id: row.state for task_id, row in rows.items()}
    assert states == {queued: State.CANCELLED, asking: State.CANCELLED, running: State.RUNNING}
    assert {row.cancel_reason for row in rows.values()} == {"its time to live is over"}
    assert rows[running].cancel_requested_at is not None
    for task_id in states:
        assert (await modern.ask("tasks/get", {"taskId": task_id}))["error"]["code"] == -32602


@pytest.mark.requirement("TASKX-15", "TASKX-04", "STATE-08")
async def test_questions_before_task_use_rounds_and_answers_reach_task(modern: ModernDesk) -> None:
    capabilities = {**DECLARED, "elicitation": {}}
    params: dict[str, Any] = {"name": "greet", "arguments": {"greeting": "Hi"}}
    first = (await modern.ask("tools/call", params, capabilities))["result"]
    assert first["resultType"] == "input_required"
    assert first["inputRequests"].keys() == {"user_name"}
    assert not await Call.objects.aexists()

    answer = {"action": "accept", "content": {"name": "Ada"}}
    again = {**params, "requestState": first["requestState"], "inputResponses": {"user_name": answer}}
    made = (await modern.ask("tools/call", again, capabilities))["result"]
    assert (made["resultType"], made["status"]) == ("task", "working")
    assert not {"requestState", "inputRequests"} & made.keys()
    row = await Call.objects.aget(pk=made["taskId"])
    assert orjson.loads(row.inputs or "{}")["remembered"]["answers"] == {"user_name": answer}
    assert orjson.loads(row.arguments) == {"greeting": "Hi"}
    await modern.end(made["taskId"], result=RESULT)
    assert (await modern.get(made["taskId"]))["result"] == RESULT


@pytest.mark.requirement("TOOL-29")
async def test_key_of_a_task_with_questions_first_makes_one_task(modern: ModernDesk) -> None:
    capabilities = {**DECLARED, "elicitation": {}}
    params: dict[str, Any] = {"name": "greet", "arguments": {}, "_meta": {idempotency.MEMBER: "once"}}
    first = [(await modern.ask("tools/call", params, capabilities))["result"] for _ in range(2)]
    assert {each["resultType"] for each in first} == {"input_required"}
    answer = {"action": "accept", "content": {"name": "Ada"}}
    again = {**params, "requestState": first[0]["requestState"], "inputResponses": {"user_name": answer}}
    made = [(await modern.ask("tools/call", again, capabilities))["result"] for _ in range(2)]
    assert made[0]["taskId"] == made[1]["taskId"]
    assert await Call.objects.acount() == 1


@pytest.mark.requirement("TASKX-23")
async def test_undeclared_capability_prevents_task_creation(modern: ModernDesk) -> None:
    refused = await modern.ask("tools/call", {"name": "greet"})
    assert refused["error"]["code"] == -32021
    assert not await Call.objects.aexists()
