"""A request to another server, with the questions that the server asks the client of this call.

Questions of servers of both eras reach clients of both eras. On 2026-07-28 and in tasks, a question ends the
run of this code, and the answers arrive with another run. ``Context.aonce`` keeps what the server has asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.content import CannotAsk, ToolError
from mcp_app.catalogue.sources.upstream.definitions import digest
from mcp_app.catalogue.sources.upstream.known import KnownUpstream, lists_changed
from mcp_app.catalogue.sources.upstream.session_keys import caller_of
from mcp_app.observability.correlation import background_call
from mcp_app.protocol.client.answers import Answered, Event, InputRequired, LogLine, Notice, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.client.outgoing import Headers
from mcp_app.protocol.errors import InternalError, InvalidParams
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.principal_key import person_of
from mcp_app.upstreams import client, open_calls, sessions
from mcp_app.upstreams.exchanges import OnQuestion, later
from mcp_app.upstreams.open_calls import OpenCall, Questions, Step
from mcp_app.upstreams.tasks import TaskCall, TaskOptions

Wire = dict[str, Any]
MAX_ROUNDS: Final = 20
MAX_QUESTIONS: Final = 20
MAX_QUESTION_BYTES: Final = 256 * 1024
_ASKED_BY: Final = {
    "elicitation": "elicitation/create",
    "sampling": "sampling/createMessage",
    "roots": "roots/list",
}
_NOT_SUPPORTED: Final = -32601
_TOO_MANY: Final = f"asks more than {MAX_QUESTIONS} questions at once, or more than {MAX_ROUNDS} times."


class Conversation:
    """One request to a server for one call of a client. ``seconds`` excludes the time for questions."""

    def __init__(self, found: KnownUpstream, context: Any, *, seconds: float, headers: Headers = ()) -> None:
        self._found, self._context = found, context
        self._caller = caller_of(found, context)
        self._seconds, self._headers = seconds, headers
        self._call: OpenCall | None = None
        # The task of a modern server while its questions are open, and the call that follows it.
        self._task, self._task_call = "", self._new_task_call("")
        self._result: Wire = {}
        self._links: set[str] = set()

    async def result(self, method: str, params: Mapping[str, Any]) -> Wire:
        """Return the result of the request. Raise UpstreamFault, and ToolError for a failed question."""
        work: Coroutine[Any, Any, Step] = self._start(method, params)
        for number in range(MAX_ROUNDS):
            try:
                asked = await self._round(f"upstream-{number}", work)
            finally:
                work.close()
            if asked is None:
                return self._result
            await self._hold(asked.get("task") or "")
            answers = await self._answers(number, asked)
            self._task = ""
            work = self._next(method, params, asked, answers)
        work.close()
        raise UpstreamFault(Kind.INVALID, _TOO_MANY)

    async def _round(self, key: str, work: Coroutine[Any, Any, Step]) -> Wire | None:
        """Return what the server asks, which is the same in every run, or None after its result."""
        asked: Wire | None = None
        if not self._context.has_value(key):
            asked = await self._asked(work)
            if asked is None:
                return None
        found: Wire = self._context.once(key, lambda: asked)
        return found

    async def _start(self, method: str, params: Mapping[str, Any], task: str = "") -> Step:
        """Send the request, or the answers in ``params`` to a task of the server."""

        def send(on_question: OnQuestion | None) -> Coroutine[Any, Any, Answered | InputRequired]:
            asking = on_question if self._caller.capabilities else None
            hops = client.hops_of(self._context.meta)
            if method == "tools/call":
                call = self._task_call = self._new_task_call(str(params.get("name")), asking)
                return call.answer(task, params["inputResponses"]) if task else call.run(params)
            return client.requested(
                self._found.server, self._caller, method, params, hops=hops, seconds=self._seconds,
                headers=self._headers, on_event=self._relay, on_question=asking,
            )  # fmt: skip

        if not self._caller.capabilities or sessions.is_modern(self._found.server):
            # The server cannot ask before it answers, so the request needs no task.
            return await send(None)
        methods = frozenset(_ASKED_BY[name] for name in self._caller.capabilities)
        self._call = OpenCall(send, methods, person_of(self._context.principal.key))
        return await self._call.step()

    def _new_task_call(self, tool: str, on_question: OnQuestion | None = None) -> TaskCall:
        options = TaskOptions(
            hops=client.hops_of(self._context.meta), seconds=self._seconds, headers=self._headers,
            on_event=self._relay, on_question=on_question, call=background_call(),
        )  # fmt: skip
        return TaskCall(self._found.server, self._caller, tool, options)

    async def _hold(self, task: str) -> None:
        """Hold the task of a modern server while its questions are open."""
        self._task = task
        if task:
            await self._task_call.adopt(task)

    async def _next(self, method: str, params: Mapping[str, Any], asked: Wire, answers: Wire) -> Step:
        """Continue after questions: a modern server gets the request again, a legacy server the answers."""
        if "call" not in asked:
            responses = {key: self._response(answers[key]) for key in asked["requests"]}
            state = {} if asked["state"] is None else {"requestState": asked["state"]}
            again = {**params, "inputResponses": responses, **state}
            return await self._start(method, again, asked.get("task", ""))
        if self._call is not None and self._call.id == asked["call"]:
            return await self._call.step(answers)
        step, self._call = await open_calls.answered(asked["call"], answers, self._seconds)
        return step

    async def _asked(self, work: Coroutine[Any, Any, Step]) -> Wire | None:
        """Return what the server asks, or None after its result."""
        step = await work
        if isinstance(step, Answered):
            self._result = step.result
            return None
        if len(step.requests) > MAX_QUESTIONS:
            self._cancel()
            raise UpstreamFault(Kind.INVALID, _TOO_MANY)
        if len(jsonrpc.encode(step.requests)) > MAX_QUESTION_BYTES:
            # Questions are stored until they are answered.
            self._cancel()
            text = f"asks questions with more than {MAX_QUESTION_BYTES // 1024} KiB."
            raise UpstreamFault(Kind.TOO_LARGE, text)
        if isinstance(step, Questions):
            return {"requests": step.requests, "call": step.call}
        if not self._caller.capabilities:
            raise UpstreamFault(Kind.QUESTION, "asks a question, which this client cannot answer.")
        return {"requests": step.requests, "state": step.state, "task": step.task}

    async def _answers(self, number: int, asked: Wire) -> Wire:
        """Ask the client everything at once, and return the answers by name."""
        names = [*asked["requests"]]
        asking = []
        for place, name in enumerate(names):
            lapsed = self._call.lapsed(name) if self._call is not None and "call" in asked else None
            answer = self._answer(f"upstream-{number}-{place}", asked["requests"][name], lapsed)
            asking.append(asyncio.ensure_future(answer))
        answers: list[Wire] = []
        try:
            answers = await asyncio.gather(*asking)
        finally:
            for each in asking:
                each.cancel()
            if len(answers) < len(names):
                await self._leave()
        return dict(zip(names, answers, strict=True))

    async def _answer(self, key: str, request: Wire, lapsed: asyncio.Event | None) -> Wire:
        """Return the client's answer as a ``result`` or an ``error``, or {} once the question has lapsed."""
        if lapsed is None:
            return await self._relayed(key, request)
        answer = asyncio.ensure_future(self._relayed(key, request))
        lapse = asyncio.ensure_future(lapsed.wait())
        try:
            await asyncio.wait((answer, lapse), return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else {}
        finally:
            answer.cancel()
            lapse.cancel()

    async def _relayed(self, key: str, request: Wire) -> Wire:
        method, params = request["method"], request.get("params")
        try:
            found = self._named(method, params if isinstance(params, dict) else {})
            return {"result": await self._context.arelay(method, found, key=key)}
        except CannotAsk as error:
            return {"error": {"code": _NOT_SUPPORTED, "message": str(error)}}
        except ToolError as error:
            return {"error": {"code": InternalError.code, "message": str(error)}}
        except ValueError as error:
            return {"error": {"code": InvalidParams.code, "message": str(error)}}

    def _named(self, method: str, params: Wire) -> Wire:
        """Return the params of a question with the name of the server that asks."""
        if method not in (_ASKED_BY[name] for name in self._caller.capabilities):
            raise ValueError(f"{method[:100]} is not relayed for this server.")
        name, found = self._found.server.name, dict(params)
        if method == "sampling/createMessage":
            # To the client, this server and all servers behind it are one, so they would share their context.
            found.pop("includeContext", None)
            # Of a request for the model, clients show the system prompt and the messages.
            theirs = found.get("systemPrompt")
            told = f"The server {name} asks."
            found["systemPrompt"] = f"{told}\n\n{theirs}" if isinstance(theirs, str) and theirs else told
        if method != "elicitation/create":
            return found
        if isinstance(params.get("message"), str):
            found["message"] = f"{name} asks: {params['message']}"
        if params.get("mode") == "url":
            given = params.get("elicitationId")
            # Since 2026-07-28 servers send no id. It must be the same in every run.
            number = given if isinstance(given, str) else digest(params.get("url"))
            # The ids of two servers must not collide (INT-65).
            found["elicitationId"] = f"{name}:{number}"
            self._links.add(number)
        return found

    def _response(self, answer: Wire) -> Wire:
        if "error" in answer:
            text = f"asks a question, which got no answer: {answer['error']['message']}"
            raise UpstreamFault(Kind.QUESTION, text)
        result: Wire = answer["result"]
        return result

    async def _relay(self, event: Event) -> None:
        context, name = self._context, self._found.server.name
        if isinstance(event, Progress):
            context.progress(event.progress, event.total, event.message)
        elif isinstance(event, LogLine):
            context.log(event.level, event.data, logger=f"{name}/{event.logger}".rstrip("/"))
        elif isinstance(event, Notice) and event.method == "notifications/elicitation/complete":
            number = event.params.get("elicitationId")
            if isinstance(number, str) and number in self._links:
                context.elicitation_complete(f"{name}:{number}")
        elif isinstance(event, Notice) and event.method.endswith("/list_changed"):
            lists_changed(name)

    async def _leave(self) -> None:
        """Let the call wait for the next run, or cancel it."""
        if self._context.suspended:
            if self._call is not None:
                await open_calls.park(self._call)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
        if self._task:
            later(self._task_call.cancel())
