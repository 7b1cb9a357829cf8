"""Real calls on the in-memory twin: start one, read its messages, answer its questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from mcp_app.auth.principal import LOOPBACK, Principal
from mcp_app.catalogue.snapshots.current_snapshot import Views
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.calls import RunningCalls
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.reply import Reply
from mcp_app.execution.calls.runner import Runner
from mcp_app.execution.calls.threads import Threads
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.message_log.log import MessageLog
from mcp_app.metrics.counts import Counts
from mcp_app.observability.call_telemetry import CallTelemetry
from mcp_app.observability.correlation import Correlation
from mcp_app.protocol.errors import RequestCancelled
from mcp_app.protocol.messages import jsonrpc
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.session import LiveSession, stored_fields
from mcp_app.streams.gateway import Streams
from tests.unit.execution.store import events_of
from tests.views import SERVER

EVERYTHING = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
SETTINGS = Settings(message_log=False, sync_threads=2)
Work = Callable[[RunningCall, Context], Awaitable[dict[str, Any]]]


def session_with(capabilities: dict[str, Any] | None = None, version: str = "2025-11-25") -> LiveSession:
    """Return a session of this process that is in no store."""
    return LiveSession(
        "a-session-of-these-tests",
        stored_fields(
            version=version,
            principal_key=LOOPBACK.key,
            client_info={"name": "tests", "version": "1"},
            capabilities=EVERYTHING if capabilities is None else capabilities,
            announced=0,
        )
        | {"initialized": "1"},
    )


@dataclass
class Asked:
    """A request of the session's client."""

    session: LiveSession
    principal: Principal
    reply: Reply
    request_id: str | int
    method: str
    catalogue: CatalogueView
    payload: bytes = b"{}"

    def telemetry(self, target: str, meta: dict[str, Any]) -> CallTelemetry:
        return CallTelemetry(Correlation(self.session.id, "", self.request_id, self.principal.key))


class Stage:
    """A process with one session."""

    def __init__(self, streams: Streams, session: LiveSession | None = None, **settings: Any) -> None:
        self.streams = streams
        self.session = session or session_with()
        self.settings = replace(SETTINGS, **settings)
        self.log = MessageLog(streams, self.settings)
        self.requests = ClientRequests(streams, self.log, self.settings.client_request_seconds)
        self.runner = Runner(self.settings.sync_threads)
        self.calls = RunningCalls(streams, self.requests, self.runner, Counts(), self.settings)

    def start(
        self,
        work: Work,
        *,
        request_id: str | int = 1,
        method: str = "tools/call",
        reply: Reply | None = None,
        progress_token: str | int | None = "t",
        timeout: float = 60.0,
        principal: Principal = LOOPBACK,
        on_timeout: Callable[[], dict[str, Any]] = lambda: {"content": [], "isError": True},
        inputs: Inputs | None = None,
        waits: bool = True,
    ) -> RunningCall:
        """Start a call; its reply is ``call.reply``."""
        reply = reply or Reply(self.streams, self.session, 1)
        catalogue = Views(SERVER).of(principal.permissions)
        return self.calls.start(
            Asked(self.session, principal, reply, request_id, method, catalogue),
            target="target",
            meta={},
            progress_token=progress_token,
            timeout=timeout,
            work=work,
            on_timeout=on_timeout,
            inputs=inputs,
            waits=waits,
        )

    async def said(self, call: RunningCall, grace: float = 3600.0) -> list[dict[str, Any]]:
        """Return every message to the client of a call, the answer last."""
        async with asyncio.timeout(10):
            if await call.reply.settled(grace):
                return [orjson.loads(body) for body in call.reply.answers]
            reply = call.reply
            events = await events_of(self.streams, self.session.id, reply.stream, reply.epoch)
        return [orjson.loads(event.data) for event in events if event.kind != "close"]

    async def answer(self, call: RunningCall, result: dict[str, Any], *, number: int = 0) -> None:
        """Answer the open question of a call as its client."""
        question = await self.question(call, number)
        response = jsonrpc.Response(question["id"], result, None)
        assert await self.requests.answer(self.session, response)

    async def question(self, call: RunningCall, number: int = 0) -> dict[str, Any]:
        """Wait for a request to the client."""
        assert not await call.reply.settled(3600.0)
        reader = self.streams.reader(self.session.id, call.reply.stream, call.reply.epoch, 0)
        asked: list[dict[str, Any]] = []
        try:
            async with asyncio.timeout(5):
                while len(asked) <= number:
                    messages = [orjson.loads(event.data) for event in await reader.next(1)]
                    asked += [message for message in messages if "id" in message and "method" in message]
        finally:
            reader.close()
        return asked[number]


def result(text: str = "done") -> dict[str, Any]:
    """Return a tool result."""
    return {"content": [{"type": "text", "text": text}]}


DONE = {"jsonrpc": "2.0", "id": 1, "result": result()}
CANCELLED = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32800, "message": RequestCancelled().message}}


async def at_once(call: RunningCall, context: Context) -> dict[str, Any]:
    """Return a result immediately."""
    return result()


async def never(call: RunningCall, context: Context) -> dict[str, Any]:
    """Wait forever."""
    await asyncio.Event().wait()
    raise AssertionError


def in_thread(function: Callable[[Context], Any]) -> Work:
    """Return work that runs a function in a thread, as the runner does for synchronous tools."""

    async def work(call: RunningCall, context: Context) -> dict[str, Any]:
        threads = Threads(1)
        call.threads = (threads.start(function, context),)
        try:
            return result(str(await call.threads[0].outcome()))
        finally:
            await threads.close()

    return work


async def begun(call: RunningCall) -> None:
    """Wait until the code of the call runs."""
    while call.task is None:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
