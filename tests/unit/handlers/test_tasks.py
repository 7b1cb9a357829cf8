"""2026-07-28 calls as tasks: creation, status, cancellation, expiry; the test plays the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from mcp_app import Context
from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.execution.background.answer_streams import publish
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import cancel_broadcast
from mcp_app.models import Call
from mcp_app.protocol.call_state import State
from mcp_app.protocol.features.tasks import EXTENSION
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from mcp_app.streams.gateway import Streams
from tests.clients.envelopes import envelope_of
from tests.samples.published_schema import problems
from tests.unit.catalogue.entries import tool_entry
from tests.unit.execution.attempts import new_call
from tests.unit.handlers.desk import move_to_another_server, offer
from tests.unit.handlers.modern_desk import DECLARED, RESULT, ModernDesk, start
from tests.views import SERVER

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

OTHER = Principal(key="user:7", name="other", permissions=frozenset())


def work(ctx: Context) -> str:
    """Works."""
    return "done"


@pytest.fixture
async def modern(streams: Streams) -> AsyncIterator[ModernDesk]:
    made = ModernDesk(streams, redis_url="redis://nowhere.invalid", grace_seconds=0.05)
    offer(
        tools=[
            tool_entry(work, background=True),
            tool_entry(work, 2, name="long", task_required=True, calls_per_minute=1),
            tool_entry(work, 3, name="watched", needs_approval=True),
            tool_entry(work, 4, name="small"),
        ]
    )
    yield made
    await made.process.calls.close(0.01)


@pytest.mark.requirement(
    "TASKX-02", "TASKX-04", "TASKX-05", "TASKX-06", "TASKX-17", "TASKX-20", "TASKX-21", "CEL-01"
)
async def test_task_is_stored_before_answer_and_ends_with_result(modern: ModernDesk) -> None:
    made = await modern.make()
    assert (made["status"], made["ttlMs"], made["pollIntervalMs"]) == ("working", 86_400_000, 1_000)
    assert not modern.reply.take()
    row = await Call.objects.aget(pk=made["taskId"])
    assert (row.state, row.principal, row.session_id) == (State.ACCEPTED, LOOPBACK.key, modern.exchange.id)
    assert EXTENSION in orjson.loads(row.session_fields["capabilities"])["extensions"]

    seen = await modern.get(made["taskId"])
    assert seen == {**made, "resultType": "complete", "_meta": seen["_meta"]}
    await modern.end(made["taskId"], result=RESULT)
    seen = await modern.get(made["taskId"])
    assert (seen["status"], seen["result"]) == ("completed", RESULT)
    assert seen["lastUpdatedAt"] > seen["createdAt"] == made["createdAt"]
    assert "related-task" not in orjson.dumps(seen).decode()


@pytest.mark.requirement("TASKX-02")
async def test_call_without_extension_or_background_creates_no_task(modern: ModernDesk) -> None:
    small = await modern.ask("tools/call", {"name": "small", "task": {"ttl": 5}})
    assert small["result"]["content"] == RESULT["content"]
    exchange = Exchange(envelope_of(), LOOPBACK.key, SERVER)
    request = jsonrpc.Request(1, "tools/call", {"name": "work", "task": {"ttl": 5}})
    reply = await modern.process.dispatcher.exchange(modern.asked(exchange), request, b"{}")
    assert not reply.answered
    row = await Call.objects.aget()
    assert row.task_until is None
    encoded = orjson.dumps({"jsonrpc": "2.0", "id": 1, "result": RESULT})
    call = await start(str(row.pk))
    await sync_to_async(records.finish)(call.id, call.attempt, State.COMPLETED, "ok", encoded)
    await publish(modern.streams, call, encoded)
    await reply.changed(5)
    assert reply.answered == encoded


@pytest.mark.requirement("TASKX-03")
async def test_task_only_tool_refuses_client_without_extension(modern: ModernDesk) -> None:
    for _ in range(2):  # The rate limit counts neither call.
        refused = await modern.ask("tools/call", {"name": "long"}, capabilities={})
        assert (modern.status, refused["error"]["code"]) == (400, -32021)
        assert refused["error"]["data"] == {"requiredCapabilities": DECLARED}
    assert not await Call.objects.aexists()
    assert (await modern.make("long"))["status"] == "working"


@pytest.mark.requirement("TASKX-22")
async def test_call_finished_within_grace_period_returns_result(streams: Streams) -> None:
    offer(tools=[tool_entry(work, background=True)])
    desk = ModernDesk(streams, redis_url="redis://nowhere.invalid", grace_seconds=5.0)
    asking = asyncio.create_task(desk.ask("tools/call", {"name": "work"}))
    while (row := await Call.objects.afirst()) is None:
        await asyncio.sleep(0.01)
    await desk.end(str(row.pk), result=RESULT)
    assert (await asking)["result"] == RESULT


@pytest.mark.requirement("TASKX-07")
@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"result": {**RESULT, "isError": True}}, "completed"),
        ({"error": {"code": -32603, "message": "no", "data": {"a": 1}}}, "failed"),
    ],
)
async def test_tool_error_completes_task_and_protocol_error_fails_task(
    answer: dict[str, Any], status: str, modern: ModernDesk
) -> None:
    made = await modern.make()
    await modern.end(made["taskId"], **answer)
    seen = await modern.get(made["taskId"])
    assert seen["status"] == status
    assert {name: seen.get(name) for name in ("result", "error") if name in seen} == answer
    assert seen.get("statusMessage") == ("no" if status == "failed" else None)


@pytest.mark.requirement("CEL-08", "TASKX-17")
@pytest.mark.parametrize(
    ("progress", "words"),
    [
        ((3.0, 10.0, "three of them"), "three of them"),
        ((3.0, 10.0, None), "3 of 10"),
        ((0.5, None, ""), "0.5"),
    ],
)
async def test_progress_becomes_status_message(
    progress: tuple[float, float | None, str | None], words: str, modern: ModernDesk
) -> None:
    made = await modern.make()
    call = await start(made["taskId"])
    before = (await modern.get(made["taskId"]))["lastUpdatedAt"]
    await asyncio.sleep(0.002)
    await sync_to_async(records.renew)(call.id, call.attempt, progress, is_news=True)
    seen = await modern.get(made["taskId"])
    assert seen["statusMessage"] == words
    assert seen["lastUpdatedAt"] > before


async def test_task_awaiting_approval_has_status_message(modern: ModernDesk) -> None:
    made = await modern.make("watched")
    assert (made["status"], made["statusMessage"]) == ("working", "Waiting for approval (60 min left)")
    assert (await modern.get(made["taskId"]))["statusMessage"].startswith("Waiting for approval")


@pytest.mark.requirement("TASKX-10", "CEL-05")
async def test_cancel_is_acknowledged_in_every_task_state(modern: ModernDesk) -> None:
    heard: list[dict[str, Any]] = []
    modern.streams.hub.subscribe("cancel", heard.append)
    queued, running, over = [(await modern.make())["taskId"] for _ in range(3)]
    call = await start(running)
    await modern.end(over, result=RESULT)
    for task_id in (queued, queued, running, over):
        answer = await modern.ask("tasks/cancel", {"taskId": task_id})
        assert answer["result"].keys() == {"resultType", "_meta"}
        assert problems("ext-tasks", "CancelTaskResult", answer["result"]) == []
    assert (await modern.get(queued))["status"] == "cancelled"
    assert (await modern.get(over))["status"] == "completed"
    seen = await modern.get(running)
    assert (seen["status"], seen["statusMessage"]) == ("working", "Stopping")
    await asyncio.sleep(0)
    assert heard == [cancel_broadcast(call, "cancelled by its client")]


@pytest.mark.requirement("TASKX-11", "TASKX-18", "TASKX-19")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_foreign_expired_or_unknown_task_is_not_found(method: str, modern: ModernDesk) -> None:
    own, expired, elsewhere = [(await modern.make())["taskId"] for _ in range(3)]
    await move_to_another_server(elsewhere)
    foreign = (await modern.make(principal=OTHER))["taskId"]
    no_task = await modern.process.background.accept(new_call())
    await Call.objects.filter(pk=expired).aupdate(task_until=timezone.now() - timedelta(seconds=1))
    unknown = (
        str(uuid4()),
        "x",
        "",
        own.upper(),
        own.replace("-", ""),
        foreign,
        expired,
        elsewhere,
        str(no_task[0].id),
    )
    for task_id in unknown:
        refused = await modern.ask(method, {"taskId": task_id, "inputResponses": {}})
        assert (modern.status, refused["error"]["code"]) == (400, -32602)
        assert refused["error"]["message"] == f"Task not found: {task_id} is unknown or expired."
    assert not await Call.objects.filter(cancel_requested_at__isnull=False).aexists()
    assert "result" in await modern.ask(method, {"taskId": own, "inputResponses": {}})


@pytest.mark.requirement("TASKX-12", "EXT-03")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
@pytest.mark.parametrize("task_id", ["gate-test", 7, None])
async def test_undeclared_extension_is_reported_before_task_id(
    method: str, task_id: Any, modern: ModernDesk
) -> None:
    refused = await modern.ask(method, {"taskId": task_id}, capabilities={"extensions": {"other/one": {}}})
    assert (modern.status, refused["error"]["code"]) == (400, -32021)
    assert refused["error"]["data"] == {"requiredCapabilities": DECLARED}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {}),
        ("tasks/get", {"taskId": 7}),
        ("tasks/cancel", {"taskId": ["x"]}),
        ("tasks/update", {"inputResponses": {}}),
    ],
)
async def test_invalid_task_params_are_named(method: str, params: dict[str, Any], modern: ModernDesk) -> None:
    refused = await modern.ask(method, params)
    assert (modern.status, refused["error"]["code"]) == (400, -32602)
    assert "'taskId'" in refused["error"]["message"]


@pytest.mark.requirement("TASKX-08")
async def test_unrequested_answers_are_ignored(modern: ModernDesk) -> None:
    task_id = (await modern.make())["taskId"]
    answer = await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": {"nothing": {}}})
    assert answer["result"].keys() == {"resultType", "_meta"}
    refused = await modern.ask("tasks/update", {"taskId": task_id, "inputResponses": []})
    assert refused["error"]["code"] == -32602


@pytest.mark.requirement("TASKX-13")
@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
async def test_core_task_methods_are_unknown(method: str, modern: ModernDesk) -> None:
    refused = await modern.ask(method, {"taskId": "x"})
    assert (modern.status, refused["error"]["code"]) == (404, -32601)


@pytest.mark.requirement("TASKX-01")
async def test_tasks_extension_is_declared_only_with_workers(modern: ModernDesk, streams: Streams) -> None:
    found = (await modern.ask("server/discover", {}))["result"]["capabilities"]
    assert found["extensions"] == {EXTENSION: {}}
    assert "tasks" not in found
    alone = ModernDesk(streams)
    assert "extensions" not in (await alone.ask("server/discover", {}))["result"]["capabilities"]


@pytest.mark.requirement("TASKX-19", "CEL-04")
async def test_task_is_retained_until_promised_expiry(modern: ModernDesk) -> None:
    kept, expired = [(await modern.make())["taskId"] for _ in range(2)]
    for task_id in (kept, expired):
        await modern.end(task_id, result=RESULT)
    long_ago = timezone.now() - timedelta(days=30)
    await Call.objects.aupdate(accepted_at=long_ago, finished_at=long_ago)
    await Call.objects.filter(pk=expired).aupdate(task_until=long_ago)
    assert await sync_to_async(records.purge)() == 1
    assert [row.pk async for row in Call.objects.all()] == [UUID(kept)]


@pytest.mark.requirement("TASKX-18")
async def test_task_id_is_random_uuid(modern: ModernDesk) -> None:
    ids = [(await modern.make())["taskId"] for _ in range(3)]
    assert {UUID(each).version for each in ids} == {4}
    assert len(set(ids)) == 3
