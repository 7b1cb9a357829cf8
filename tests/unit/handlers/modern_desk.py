"""A process whose clients send single requests and accept tasks; the test plays its workers."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from asgiref.sync import sync_to_async

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.execution.background.answer_streams import publish
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.questions import open_questions
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import records, task_records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.protocol.call_state import State
from mcp_app.protocol.errors import http_status_for
from mcp_app.protocol.features.tasks import EXTENSION
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.exchange import Exchange
from tests.clients.envelopes import envelope_of
from tests.samples.published_schema import problems
from tests.unit.handlers.desk import Desk

VERSION = "2026-07-28"
DECLARED: dict[str, Any] = {"extensions": {EXTENSION: {}}}
RESULT = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


class ModernDesk(Desk):
    """A process with a remote worker."""

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        capabilities: dict[str, Any] | None = None,
        principal: Principal = LOOPBACK,
    ) -> dict[str, Any]:
        """Return the answer to one request; ``exchange`` and ``reply`` keep its objects."""
        declared = DECLARED if capabilities is None else capabilities
        self.exchange = Exchange(envelope_of(declared), principal.key, self.process.views.server)
        request = jsonrpc.Request(1, method, params)
        async with asyncio.timeout(10):
            self.reply: ExchangeReply = await self.process.dispatcher.exchange(
                self.asked(self.exchange, principal), request, b"{}"
            )
            await self.reply.changed(5)
        self.status = http_status_for(self.reply.error, VERSION) if self.reply.error else 200
        answer: dict[str, Any] = orjson.loads(self.reply.answered)
        return answer

    async def make(self, tool: str = "work", **more: Any) -> dict[str, Any]:
        """Return the task created by a call."""
        result: dict[str, Any] = (await self.ask("tools/call", {"name": tool}, **more))["result"]
        assert problems("ext-tasks", "CreateTaskResult", result) == []
        return result

    async def get(self, task_id: str, **more: Any) -> dict[str, Any]:
        """Return the current state of a task."""
        answer = await self.ask("tasks/get", {"taskId": task_id}, **more)
        assert not self.reply.take()  # TASKX-20
        assert problems("ext-tasks", "GetTaskResult", answer["result"]) == []
        result: dict[str, Any] = answer["result"]
        return result

    async def update(self, task_id: str, **responses: Any) -> None:
        """Answer the questions of a task."""
        answer = await self.ask("tasks/update", {"taskId": task_id, "inputResponses": responses})
        assert answer["result"].keys() == {"resultType", "_meta"}
        assert problems("ext-tasks", "UpdateTaskResult", answer["result"]) == []

    async def end(self, task_id: str, **answer: Any) -> None:
        """Do the work of a worker on a task."""
        call = await start(task_id)
        encoded = orjson.dumps({"jsonrpc": "2.0", "id": 1, **answer})
        state, outcome = (State.COMPLETED, "ok") if "result" in answer else (State.FAILED, "error")
        assert await sync_to_async(records.finish)(call.id, call.attempt, state, outcome, encoded)
        await publish(self.streams, call, encoded)


async def start(task_id: str) -> CallRecord:
    """Start an attempt."""
    call = await sync_to_async(records.claim)(task_id, "worker")
    assert call is not None
    return call


async def suspend(task_id: str, *keys: str) -> CallRecord:
    """Start an attempt that requests roots under each key."""
    call = await start(task_id)
    inputs = Inputs.restored(call.inputs) if call.inputs else Inputs()
    for key in keys:
        inputs.leave_open(key, "roots/list", {})
    kept = open_questions.asked(inputs, call.inputs)
    assert await sync_to_async(task_records.suspend)(call.id, call.attempt, kept)
    return call
