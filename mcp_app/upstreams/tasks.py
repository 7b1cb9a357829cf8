"""Calls of tools that a server answers with a task, by the extension of 2026-07-28 or the core of 2025-11-25.

The task is polled until it has a result. Redis has the id of the task of a background call, so that another
attempt of the call, in any process, continues with the same task.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import orjson

from mcp_app.protocol.client.answers import Answered, Event, InputRequired, Progress, error_of, questions_of
from mcp_app.protocol.client.faults import OUTAGES, Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Headers, Peer
from mcp_app.protocol.errors import MethodNotFound, MissingCapability
from mcp_app.protocol.features.tasks import EXTENSION, Status
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.streams.blocking import shared_values
from mcp_app.upstreams import client
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.client import Result
from mcp_app.upstreams.connection import OnEvent
from mcp_app.upstreams.exchanges import OnQuestion, later
from mcp_app.upstreams.server import UpstreamServer

FIRST_SECONDS: Final = 0.5
MOST_SECONDS: Final = 30.0
REQUEST_SECONDS: Final = 10.0
# A server that cannot be reached for this time has lost the task.
LOST_SECONDS: Final = 120.0
KEPT_SECONDS: Final = 86_400.0
MAX_ID: Final = 256
_MAX_LEARNT: Final = 10_000

log = logging.getLogger("mcp.upstream")
# Whether tools need or refuse a task, by server and name, where a server has refused the other form.
_learnt: dict[tuple[int, str], bool] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The options of a call. ``call`` is the id of a background call, or "" for a call within a request."""

    hops: int
    seconds: float
    headers: Headers
    on_event: OnEvent
    on_question: OnQuestion | None
    call: str


@dataclass(frozen=True, slots=True)
class Left:
    """The task of a background call as Redis has it: its id, the attempt that follows it, and its caller."""

    task: str
    modern: bool
    holder: str
    server: str = ""
    caller: str = ""
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    account: tuple[str, str] | None = None


class TaskCall:
    """A call of a tool that may become a task."""

    def __init__(self, server: UpstreamServer, caller: Caller, tool: str, options: TaskOptions) -> None:
        self._server, self._caller, self._options = server, caller, options
        self._key = server.pk, tool
        self._holder = secrets.token_hex(8) if options.call else ""
        self._task = self._message = ""
        self._is_modern = self._has_core = self._asked_for_task = False
        self._answered: set[str] = set()
        self._steps = 0

    async def run(self, params: Mapping[str, Any]) -> Result:
        """Call the tool, or continue with the task of an earlier attempt. Raise UpstreamFault."""
        if not await self._resumed():
            answer = await self._called(params)
            delay = self._created(answer)
            return await self._followed(delay) if self._task else answer
        return await self._followed(0.0)

    async def answer(self, task: str, responses: Mapping[str, Any]) -> Result:
        """Send answers to the questions of a modern task, and continue with it. Raise UpstreamFault."""
        self._task, self._is_modern, self._answered = task, True, {*responses}
        return await self._followed(FIRST_SECONDS, {"inputResponses": dict(responses)})

    async def adopt(self, task: str) -> None:
        """Take over the task of a modern server whose questions are open."""
        self._task, self._is_modern = task, True
        await self._share()

    async def cancel(self) -> None:
        """Cancel the task, unless another attempt has taken it over."""
        await self._cancelled()

    async def _called(self, params: Mapping[str, Any]) -> Result:
        try:
            return await self._request("tools/call", params, self._options.seconds)
        except UpstreamFault as fault:
            if not self._is_wrong_form(fault):
                raise
        if len(_learnt) >= _MAX_LEARNT:
            _learnt.clear()
        _learnt[self._key] = not self._asked_for_task
        return await self._request("tools/call", params, self._options.seconds)

    def _is_wrong_form(self, fault: UpstreamFault) -> bool:
        """Return True if the tool needs a task and none was asked for, or the other way round."""
        if not self._is_modern:
            return self._has_core and fault.code == MethodNotFound.code
        needed: Any = fault.data
        for name in ("requiredCapabilities", "extensions"):
            needed = needed.get(name) if isinstance(needed, dict) else None
        is_needed = isinstance(needed, dict) and EXTENSION in needed
        return fault.code == MissingCapability.code and is_needed and not self._asked_for_task

    async def _request(self, method: str, params: Mapping[str, Any], seconds: float) -> Result:
        options = self._options
        return await client.requested(
            self._server, self._caller, method, params, hops=options.hops, seconds=seconds,
            headers=options.headers if method == "tools/call" else (), on_event=options.on_event,
            on_question=options.on_question, adapt=partial(self._adapted, method, params),
        )  # fmt: skip

    def _adapted(
        self, method: str, params: Mapping[str, Any], peer: Peer
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the params of a request and the capabilities to declare, for the revision of the server."""
        self._is_modern, self._has_core = peer.is_modern, not peer.is_modern and _has_core(peer)
        wants = _learnt.get(self._key, bool(self._options.call)) if method == "tools/call" else True
        self._asked_for_task = wants and (peer.is_modern or self._has_core)
        if not self._asked_for_task:
            return params, {}
        if peer.is_modern:
            return params, {"extensions": {EXTENSION: {}}}
        return ({**params, "task": {}} if method == "tools/call" else params), {}

    def _created(self, answer: Result) -> float:
        """Record the task in an answer, if there is one. Return the time before the first poll."""
        if not isinstance(answer, Answered) or not self._asked_for_task:
            return 0.0
        is_flat = answer.result.get("resultType") == "task"
        task = answer.result if is_flat else answer.result.get("task")
        if not isinstance(task, dict) or (self._is_modern and not is_flat):
            return 0.0
        number = task.get("taskId")
        if not isinstance(number, str) or not 0 < len(number) <= MAX_ID:
            raise UpstreamFault(Kind.INVALID, "answered with a task that has no id.")
        self._task = number
        return min(_interval(task), FIRST_SECONDS)

    async def _followed(self, delay: float, update: Mapping[str, Any] | None = None) -> Result:
        """Poll the task until its result or its questions. Cancellation cancels the task.

        ``update`` is sent to the task before.
        """
        try:
            await self._share()
            if update is not None:
                await self._ask("tasks/update", update)
            return await self._polled(delay)
        except asyncio.CancelledError:
            later(self._cancelled())
            raise

    async def _polled(self, delay: float) -> Result:
        seen = time.monotonic()
        until = seen + self._options.seconds
        while True:
            await asyncio.sleep(delay)
            if not self._options.call and time.monotonic() > until:
                later(self._cancelled())
                raise UpstreamFault(Kind.TIMEOUT, "did not finish its task in time.")
            try:
                task = await self._ask("tasks/get", {})
                result = await self._outcome(task)
            except UpstreamFault as fault:
                if fault.kind not in OUTAGES or time.monotonic() - seen > LOST_SECONDS:
                    await self._forget()
                    raise
                delay = min(max(delay, FIRST_SECONDS) * 2, MOST_SECONDS)
                continue
            if result is not None:
                if not isinstance(result, InputRequired):
                    await self._forget()
                return result
            await self._report(task)
            seen, delay = time.monotonic(), _interval(task)

    async def _outcome(self, task: Mapping[str, Any]) -> Result | None:
        """Return the result or the new questions of a task, or None while it works."""
        status = task.get("status")
        if status == Status.CANCELLED:
            raise UpstreamFault(Kind.REFUSED, "cancelled the task.")
        if not self._is_modern:
            # The answer also carries the questions of the task.
            is_waiting = status in (Status.COMPLETED, Status.FAILED, Status.INPUT_REQUIRED)
            return await self._request("tasks/result", self._params, self._seconds) if is_waiting else None
        if status == Status.FAILED:
            raise error_of(_error(task))
        if status == Status.COMPLETED:
            if not isinstance(task.get("result"), dict):
                raise UpstreamFault(Kind.INVALID, "finished a task without a result.")
            return Answered(task["result"])
        asked = questions_of(task) if status == Status.INPUT_REQUIRED else {}
        new = {name: question for name, question in asked.items() if name not in self._answered}
        return InputRequired(new, None, self._task) if new else None

    async def _report(self, task: Mapping[str, Any]) -> None:
        message = task.get("statusMessage")
        if isinstance(message, str) and message != self._message:
            self._message = message
            self._steps += 1
            await self._options.on_event(Progress(float(self._steps), None, message[:2_000]))

    async def _ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self._request(method, {**self._params, **params}, REQUEST_SECONDS)
        if not isinstance(answer, Answered):
            raise UpstreamFault(Kind.QUESTION, "asks a question about a task.")
        return answer.result

    @property
    def _params(self) -> dict[str, Any]:
        return {"taskId": self._task}

    @property
    def _seconds(self) -> float:
        return max(self._options.seconds, REQUEST_SECONDS)

    # The task of a background call, which outlives a process.

    async def _resumed(self) -> bool:
        if not self._options.call:
            return False
        left = await left_of(self._options.call)
        if left is None:
            return False
        self._task, self._is_modern = left.task, left.modern
        log.info("The task of a background call at the server %s is continued.", self._server.name)
        return True

    async def _share(self) -> None:
        if self._options.call:
            account = self._server.account
            left = Left(
                self._task, self._is_modern, self._holder, self._server.name, self._caller.key,
                dict(self._caller.capabilities), None if account is None else (account.user, account.key),
            )  # fmt: skip
            await asyncio.to_thread(shared_values.put, self._name, orjson.dumps(left), KEPT_SECONDS)

    async def _forget(self) -> None:
        if self._options.call:
            await asyncio.to_thread(shared_values.drop, self._name)

    async def _cancelled(self) -> None:
        """Cancel the task at the server, unless another attempt has taken it over."""
        if self._options.call:
            left = await left_of(self._options.call)
            if left is not None and left.holder != self._holder:
                return
            await self._forget()
        try:
            await self._ask("tasks/cancel", {})
        except UpstreamFault as fault:
            log.info("The server %s %s", self._server.name, fault)

    @property
    def _name(self) -> str:
        return _name(self._options.call)


async def left_of(call: str) -> Left | None:
    """Return the task of a background call, or None."""
    found = await asyncio.to_thread(shared_values.get, _name(call))
    return None if found is None else Left(**orjson.loads(found))


async def cancel(server: UpstreamServer, caller: Caller, left: Left, call: str) -> None:
    """Cancel the task of a background call that no attempt runs."""

    async def ignored(_event: Event) -> None:
        """Ignore an event."""

    options = TaskOptions(
        hops=0, seconds=REQUEST_SECONDS, headers=(), on_event=ignored, on_question=None, call=call
    )
    made = TaskCall(server, caller, "", options)
    await made.adopt(left.task)
    await made.cancel()


def _name(call: str) -> str:
    return f"upstream-task/{call}"


def _has_core(peer: Peer) -> bool:
    found: Any = peer.capabilities
    for name in ("tasks", "requests", "tools", "call"):
        found = found.get(name) if isinstance(found, dict) else None
    return peer.version == V2025_11_25 and isinstance(found, dict)


def _interval(task: Mapping[str, Any]) -> float:
    found = task.get("pollIntervalMs", task.get("pollInterval"))
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return min(max(found / 1000, FIRST_SECONDS), MOST_SECONDS) if is_number and found else 2 * FIRST_SECONDS


def _error(task: Mapping[str, Any]) -> dict[str, Any]:
    found = task.get("error")
    if isinstance(found, dict) and type(found.get("code")) is int and isinstance(found.get("message"), str):
        return found
    return {"code": 0, "message": "the task failed"}
