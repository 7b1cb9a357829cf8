"""A scripted server of either era that answers calls with a task."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from mcp_app.protocol.features.tasks import EXTENSION, REQUIRED
from mcp_app.protocol.messages import envelope
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from tests.servers.on_thread import on_thread
from tests.unit.egress.sites import Heard, response

CORE: dict[str, Any] = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
TOOL: dict[str, Any] = {
    "name": "slow", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True},
}  # fmt: skip
FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTION: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"message": "Who?", "requestedSchema": FORM},
}


class TaskServer:
    """A server with one tool and one task.

    ``needs_task`` is False if the tool refuses to be called as a task. ``states`` are the statuses that polls
    get, the last one repeatedly. Methods that are ``held`` get no answer.
    """

    def __init__(self, version: str = V2025_11_25, *, needs_task: bool = True) -> None:
        self.version, self.needs_task = version, needs_task
        self.states: list[dict[str, Any]] = [{"status": "working"}]
        self.result: dict[str, Any] = {"content": [{"type": "text", "text": "done"}]}
        self.methods: list[str] = []
        self.held: set[str] = set()
        self.answers: Any = None
        self.polled, self.cancelled = threading.Event(), threading.Event()
        self.url = ""

    async def __call__(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        message = orjson.loads(heard.body) if heard.body else {}
        method, params = message.get("method", ""), message.get("params", {})
        self.methods.append(method or heard.line.split()[0])
        if method in self.held:
            await asyncio.Event().wait()
        if "id" not in message:
            writer.write(response(b"", status="202 Accepted"))
            return
        found = self._answer(method, params)
        body = orjson.dumps({"jsonrpc": "2.0", "id": message["id"], **found})
        session = () if method != "initialize" else ("Mcp-Session-Id: s",)
        writer.write(response(body, *session))

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        is_modern = self.version == V2026_07_28
        if method == "server/discover" and is_modern:
            return result({"supportedVersions": [self.version], "capabilities": {"tools": {}}})
        if method == "initialize" and not is_modern:
            return result({"protocolVersion": self.version, "capabilities": CORE, "serverInfo": {}})
        if method == "tools/list":
            return result({"tools": [TOOL]})
        if method == "tools/call":
            return self._called(params, is_modern=is_modern)
        if method == "tasks/get":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            self.polled.set()
            return result({**TASK, "result": self.result, **state})
        if method == "tasks/result":
            return result(self.result)
        if method == "tasks/update":
            self.answers = params["inputResponses"]
            return result({})
        if method == "tasks/cancel":
            self.cancelled.set()
            return result({})
        return error(-32601, "Unknown method.")

    def _called(self, params: dict[str, Any], *, is_modern: bool) -> dict[str, Any]:
        told = params.get("_meta", {}).get(envelope.CLIENT_CAPABILITIES, {})
        is_task = EXTENSION in told.get("extensions", {}) if is_modern else "task" in params
        if is_task and not self.needs_task:
            # A modern server answers with the result.
            return result(self.result) if is_modern else error(-32601, "Not as a task.")
        if not is_task and self.needs_task:
            needed = {"requiredCapabilities": REQUIRED}
            return error(-32021, "Needs tasks.", needed) if is_modern else error(-32601, "As a task only.")
        if not is_task:
            return result(self.result)
        return result({"resultType": "task", **TASK} if is_modern else {"task": TASK})


TASK: dict[str, Any] = {"taskId": "t-1", "status": "working", "pollIntervalMs": 1, "pollInterval": 1}


def result(found: dict[str, Any]) -> dict[str, Any]:
    return {"result": found}


def error(code: int, text: str, data: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": text, **({"data": data} if data else {})}}


@contextmanager
def task_server(server: TaskServer) -> Iterator[None]:
    """Run the server on a thread."""
    with on_thread(server) as (site, _):
        server.url = f"http://127.0.0.1:{site.port}/mcp"
        yield
