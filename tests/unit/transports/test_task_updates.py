"""Task subscriptions: the initial state, and every later change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from asgiref.sync import sync_to_async

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.execution.background.answer_streams import announce_task
from mcp_app.execution.stored.call_record import record
from mcp_app.models import Call
from mcp_app.protocol.errors import InvalidParams, MissingCapability
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from mcp_app.streams.gateway import Streams
from mcp_app.transports.subscriptions import Subscription, Subscriptions
from tests.clients.envelopes import envelope_of
from tests.samples.published_schema import problems
from tests.unit.catalogue.entries import tool_entry
from tests.unit.handlers.desk import offer
from tests.unit.handlers.modern_desk import DECLARED, RESULT, ModernDesk

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]

OTHER = Principal(key="user:7", name="other", permissions=frozenset())


def work() -> str:
    """Works."""
    return "done"


class Listener:
    """One listen request on a desk."""

    def __init__(self, desk: ModernDesk) -> None:
        self.desk = desk
        self.all = Subscriptions(desk.process)
        self.woken = asyncio.Event()
        self.subscription: Subscription

    async def open(self, task_ids: Any, capabilities: dict[str, Any] | None = None) -> list[str]:
        """Open the stream; return the acknowledged task ids."""
        declared = DECLARED if capabilities is None else capabilities
        request = jsonrpc.Request("s", "subscriptions/listen", {"notifications": {"taskIds": task_ids}})
        exchange = Exchange(envelope_of(declared), LOOPBACK.key, self.desk.process.views.server)
        self.subscription, said = await self.all.open(
            self.desk.asked(exchange), request, b"{}", "", self.woken.set
        )
        granted: list[str] = orjson.loads(said)["params"]["notifications"].get("taskIds", [])
        return granted

    async def told(self) -> list[dict[str, Any]]:
        """Return the next notifications."""
        async with asyncio.timeout(5):
            await self.woken.wait()
        self.woken.clear()
        messages = [orjson.loads(message) for message in self.all.take(self.subscription)]
        for message in messages:
            assert problems("ext-tasks", "TaskStatusNotification", message) == []
            assert message["params"].pop("_meta") == {"io.modelcontextprotocol/subscriptionId": "s"}
        return [message["params"] for message in messages]


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    streams = Streams.in_memory()
    await streams.start()
    before = current_snapshot.current()
    offer(tools=[tool_entry(work, background=True)])
    desk = ModernDesk(streams, redis_url="redis://nowhere.invalid", grace_seconds=0.05)
    yield Listener(desk)
    current_snapshot.replace(before)
    await desk.process.calls.close(0.01)


@pytest.mark.requirement("TASKX-16")
async def test_subscription_gets_initial_state_and_changes_of_task(listener: Listener) -> None:
    desk = listener.desk
    task_id = (await desk.make())["taskId"]
    assert await listener.open([task_id, task_id]) == [task_id]
    assert [told["status"] for told in await listener.told()] == ["working"]
    await desk.end(task_id, result=RESULT)
    seen = await desk.get(task_id)
    del seen["_meta"], seen["resultType"]
    assert await listener.told() == [seen]


@pytest.mark.requirement("TASKX-16", "TASKX-18")
async def test_subscription_gets_own_tasks_only(listener: Listener) -> None:
    desk = listener.desk
    own, foreign = (await desk.make())["taskId"], (await desk.make(principal=OTHER))["taskId"]
    assert await listener.open([foreign, "unknown", own]) == [own]
    await listener.told()
    row = await Call.objects.aget(pk=foreign)
    await announce_task(desk.streams, await sync_to_async(record)(row))
    await desk.ask("tasks/cancel", {"taskId": own})
    assert [(told["taskId"], told["status"]) for told in await listener.told()] == [(own, "cancelled")]


async def test_resync_resends_changed_task(listener: Listener) -> None:
    task_id = (await listener.desk.make())["taskId"]
    await listener.open([task_id])
    await listener.told()
    await Call.objects.aupdate(progress=1.0, message="further")
    await listener.desk.streams.hub.publish("task", {"resync": True})
    assert [told["statusMessage"] for told in await listener.told()] == ["further"]


@pytest.mark.requirement("TASKX-12")
async def test_task_subscription_requires_declared_extension(listener: Listener) -> None:
    with pytest.raises(MissingCapability):
        await listener.open([], {})
    with pytest.raises(InvalidParams):
        await listener.open("x")
