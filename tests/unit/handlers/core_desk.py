"""A process with 2025-11-25 sessions that request tasks; the test plays its worker."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from asgiref.sync import sync_to_async

from mcp_app.auth.principal import Principal
from mcp_app.execution.background.id_batch import Published
from mcp_app.execution.calls.reply import StreamReference
from mcp_app.execution.questions import open_questions
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.stored import records
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.execution.worker.attempt_reply import ASKED, AttemptReply
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.session import STANDALONE, LiveSession, stored_fields
from mcp_app.streams.gateway import Streams
from tests.samples.published_schema import problems
from tests.unit.handlers.desk import CLIENT, Desk

VERSION = "2025-11-25"
ADA = Principal(key="user:5", name="ada", permissions=frozenset())
BOB = Principal(key="user:7", name="bob", permissions=frozenset())
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
FORM = {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}
RESULT: dict[str, Any] = {"content": [{"type": "text", "text": "done"}]}


class CoreDesk(Desk):
    """A process with a remote worker and one client that belongs to Ada."""

    def __init__(self, streams: Streams, **settings: Any) -> None:
        super().__init__(
            streams, **{"redis_url": "redis://nowhere.invalid", "grace_seconds": 0.05} | settings
        )
        self.principal = ADA
        self._number = 0

    async def enter(
        self, principal: Principal = ADA, capabilities: dict[str, Any] | None = None, version: str = VERSION
    ) -> LiveSession:
        """Open a confirmed session for all later requests."""
        self.principal = principal
        self.session = await self.process.sessions.create(
            stored_fields(
                version=version,
                principal_key=principal.key,
                client_info=CLIENT,
                capabilities=CAPABILITIES if capabilities is None else capabilities,
                announced=1,
            )
        )
        await self.process.sessions.change(self.session, initialized="1")
        return self.session

    async def say(self, method: str, **params: Any) -> Any:
        """Return the answer to one request with a unique id."""
        self._number += 1
        return await self.request(method, params, self._number)

    async def make(self, tool: str = "work", ttl: int | None = None, **more: Any) -> dict[str, Any]:
        """Return the task created by a call."""
        task = {} if ttl is None else {"ttl": ttl}
        result = (await self.say("tools/call", name=tool, task=task, **more))["result"]
        assert problems(VERSION, "CreateTaskResult", result) == []
        made: dict[str, Any] = result["task"]
        return made

    async def get(self, task_id: str) -> dict[str, Any]:
        """Return the current state of a task."""
        result: dict[str, Any] = (await self.say("tasks/get", taskId=task_id))["result"]
        assert problems(VERSION, "GetTaskResult", result) == []
        return result

    async def wait(self, task_id: str, request_id: Any) -> str:
        """Request the result of a task; return the stream that will carry it."""
        message = jsonrpc.Request(request_id, "tasks/result", {"taskId": task_id})
        outcome = await self.process.dispatcher.request(self.asked(), message, b"{}")
        assert isinstance(outcome, StreamReference)
        return outcome.stream

    async def told(
        self, stream: str = STANDALONE, session: LiveSession | None = None
    ) -> list[dict[str, Any]]:
        """Return all messages on a stream of a session so far."""
        session = session or self.session
        head = await self.streams.log.head(session.id, stream)
        if head is None:
            return []
        page = await self.streams.log.read(session.id, stream, head.epoch, 0)
        return [orjson.loads(event.data) for event in page.events]

    async def respond(self, question: dict[str, Any], **answer: Any) -> None:
        """Answer a question of the server as the client of the session."""
        response = jsonrpc.Response(question["id"], answer.get("result"), answer.get("error"))
        await self.process.dispatcher.response(self.session, response, b"{}")

    async def work(self, task_id: str, **answer: Any) -> bool:
        """Do the work of a worker on a task: a result, an error or, with ``asks``, questions by key."""
        call = await start(task_id)
        inputs = Inputs.restored(call.inputs) if call.inputs else Inputs()
        for key, (method, params) in answer.pop("asks", {}).items():
            inputs.leave_open(key, method, params)
        reply = AttemptReply(self.streams, call, Published(), inputs)
        for notification in answer.pop("says", ()):
            reply.send(orjson.dumps(notification))
        outcome = ASKED if inputs.requests else "error" if "error" in answer else "ok"
        if answer.get("result", {}).get("isError"):
            outcome = "tool_error"
        reply.answer(orjson.dumps({"jsonrpc": "2.0", "id": call.request_id, **answer}), outcome)
        async with asyncio.timeout(10):
            return await reply.done()

    async def end(self, task_id: str, **result: Any) -> bool:
        """Finish a task with a result, as ``work`` does."""
        return await self.work(task_id, result={**RESULT, **result})


async def start(task_id: str) -> CallRecord:
    """Start an attempt."""
    call = await sync_to_async(records.claim)(task_id, "worker")
    assert call is not None
    return call


async def open_names(task_id: str) -> list[str]:
    """Return the names of the open questions of a task."""
    call = await sync_to_async(records.find)(task_id)
    assert call is not None
    return list(open_questions.requests(call.inputs or {}))
