"""The context for the code of tools, prompts and resources: one API for every protocol revision.

Most methods come in pairs, as in Django: the plain name blocks and is for synchronous code, and the ``a…``
name is awaited. ``progress``, ``track``, the log methods and ``cancelled`` never block and have only one
name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, TypeVar

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.content import CannotAsk, ToolError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.database.queries import aquery
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.json_values import jsonable, settle
from mcp_app.execution.calls.transactions import unaskable
from mcp_app.execution.questions import questions
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.questions.message_result import CreateMessageResult
from mcp_app.execution.questions.questions import Answer, Question
from mcp_app.execution.questions.relayed import relayed
from mcp_app.protocol import downlevel
from mcp_app.protocol.capabilities import ClientCapabilities, declared_extensions
from mcp_app.protocol.features.input_required import METHODS, is_answer
from mcp_app.protocol.versions import is_modern
from mcp_app.sessions.client_requests import ClientFailed, NoAnswer

log = logging.getLogger("mcp.questions")

IN_EFFECT = "A question inside of once would be asked anew each time: ask before it."

T = TypeVar("T")
# A function that reads a resource with the rights of a call's caller.
ReadResource = Callable[[RunningCall, str], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """The connected client. Do not trust its name, version and extension settings.

    ``extensions`` maps the ids of the declared extensions to their settings.
    """

    name: str
    version: str
    capabilities: ClientCapabilities
    extensions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)

    def can(self, capability: str) -> bool:
        """Return True if the client declared this capability (``roots``, ``sampling``, …) or extension id."""
        return capability in self.extensions or bool(getattr(self.capabilities, capability, False))


class Context:
    """The context, passed to code with a parameter of this type. Clients do not see this parameter."""

    __mcp_context__ = True
    __slots__ = ("_call", "_read")

    def __init__(self, call: RunningCall, read: ReadResource) -> None:
        self._call = call
        self._read = read

    @property
    def request_id(self) -> str | int:
        """The JSON-RPC id of the request."""
        return self._call.request_id

    @property
    def catalogue(self) -> CatalogueView:
        """The view of the catalogue with which the call was made. Not for application code."""
        return self._call.catalogue

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol revision."""
        return self._call.session.version

    @property
    def session_id(self) -> str:
        """The id of the session. It is never a credential."""
        return self._call.session.id

    @property
    def client(self) -> ConnectedClient:
        """The client's name, version and capabilities."""
        session = self._call.session
        info, declared = session.client_info, session.raw_capabilities
        return ConnectedClient(
            str(info.get("name", "")),
            str(info.get("version", "")),
            session.capabilities,
            # A copy, because sessions with equal declarations share the parsed value.
            deepcopy(extensions) if (extensions := declared_extensions(declared, session.version)) else {},
        )

    @property
    def user(self) -> Any:
        """The Django user of the credential, or AnonymousUser.

        This queries the database. Async code must use ``auser``.
        """
        from django.contrib.auth import get_user_model
        from django.contrib.auth.models import AnonymousUser

        user_id = self._call.principal.user_id
        return AnonymousUser() if user_id is None else get_user_model().objects.get(pk=user_id)

    async def auser(self) -> Any:
        """Return the user as ``user`` does, for async code."""
        return await aquery(lambda: self.user)

    @property
    def principal(self) -> Principal:
        """The authenticated caller.

        Its fields are internal to this server and must not be sent to clients.
        """
        return self._call.principal

    @property
    def meta(self) -> dict[str, Any]:
        """The ``_meta`` of the request as the client sent it. Do not trust it (META-08)."""
        return self._call.meta

    @property
    def traceparent(self) -> str:
        """The W3C trace context in which work for this call can continue, or "" without a trace."""
        return self.trace_headers.get("traceparent", "")

    @property
    def trace_headers(self) -> dict[str, str]:
        """The headers ``traceparent`` and ``tracestate``. Send them only to your own services."""
        context = self._call.telemetry.context
        return {} if context is None else context.headers

    def has_permission(self, permission: str) -> bool:
        """Return True if the caller has a Django permission (``app_label.codename``)."""
        return permission in self._call.principal.permissions

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress. A value not above the previous one is dropped.

        Raise Cancelled if the call was cancelled.
        """
        self.raise_if_cancelled()
        self._call.progress(progress, total, message and str(message))

    def track(self, items: Iterable[T], message: str = "") -> Iterator[T]:
        """Yield ``items``. Before each item, report progress and check for cancellation.

        A ``{}`` in ``message`` is replaced with the number of the item.
        """
        total = float(len(items)) if isinstance(items, Sized) else None
        for number, item in enumerate(items):
            self.progress(number, total, message.replace("{}", str(number + 1)) or None)
            yield item
        if total:
            self.progress(total, total)

    async def atrack(self, items: Iterable[T], message: str = "") -> AsyncIterator[T]:
        """Yield ``items`` as ``track`` does, for async code. Other tasks can run between two items."""
        for item in self.track(items, message):
            await asyncio.sleep(0)
            yield item

    def log(self, level: str, message: Any, *, logger: str = "", **data: Any) -> None:
        """Send a log message to the client if the client's log level allows it.

        Never send secrets (LOG-05).
        """
        content = {"message": message, **data} if data else message
        self._call.log_message(level, content, logger or self._call.target)

    def debug(self, message: Any, **data: Any) -> None:
        """Send a log message of level debug."""
        self.log("debug", message, **data)

    def info(self, message: Any, **data: Any) -> None:
        """Send a log message of level info."""
        self.log("info", message, **data)

    def warning(self, message: Any, **data: Any) -> None:
        """Send a log message of level warning."""
        self.log("warning", message, **data)

    def error(self, message: Any, **data: Any) -> None:
        """Send a log message of level error."""
        self.log("error", message, **data)

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification that is defined by an extension of an installed app.

        Nothing is sent to clients that did not declare the extension. Raise ValueError if no extension
        defines the notification.
        """
        owner = next((each for each in registry.extensions.values() if method in each.notifications), None)
        if owner is None:
            raise ValueError(f"No extension has the notification {method!r}: name it in extension(...).")
        if owner.is_for(self._call.session.raw_capabilities, self.protocol_version):
            self._call.send(method, jsonable(params or {}))

    @property
    def cancelled(self) -> bool:
        """True if the call was cancelled. Cheap enough for a loop."""
        return self._call.stopped

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if the call was cancelled."""
        if self._call.stopped:
            self._call.raise_if_stopped()

    def close_stream(self, retry_ms: int = 1000) -> None:
        """Make a client of 2025-11-25 poll: close its connection and let it reconnect after ``retry_ms``."""
        self._call.close_stream(retry_ms)

    async def aelicit(self, message: str, form: Any = None, *, key: str = "") -> Answer:
        """Ask the client's user to fill in a form, and return the answer.

        ``form`` is a JSON Schema with flat, simple properties, or a simple type, or a model, dataclass or
        TypedDict with fields of simple types. ``key`` identifies the question in this call: see
        ``docs/questions.md``. Raise CannotAsk if the client does not support the question. Raise ToolError
        if the client does not answer or sends an invalid answer.
        """
        return await self._ask(questions.form(message, form), key)

    def elicit(self, message: str, form: Any = None, *, key: str = "") -> Answer:
        """Ask as ``aelicit`` does, for synchronous code."""
        return self._wait(lambda: self.aelicit(message, form, key=key))

    async def aelicit_url(self, message: str, url: str, elicitation_id: str, *, key: str = "") -> Answer:
        """Ask the user to open ``url``. The page there must check that the same user opened it (ELI-11)."""
        return await self._ask(questions.link(message, url, elicitation_id), key)

    def elicit_url(self, message: str, url: str, elicitation_id: str, *, key: str = "") -> Answer:
        """Ask as ``aelicit_url`` does, for synchronous code."""
        return self._wait(lambda: self.aelicit_url(message, url, elicitation_id, key=key))

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that a URL elicitation is complete (ELI-07). This does nothing on 2026-07-28."""
        self._call.send("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    async def asample(
        self, messages: Any, *, max_tokens: int, key: str = "", **options: Any
    ) -> CreateMessageResult:
        """Ask the client's model to continue ``messages``, which is a text or a list of sampling messages.

        ``options`` are members of ``sampling/createMessage`` in snake case: system_prompt, temperature, …
        """
        return await self._ask(questions.sample(messages, max_tokens, options), key)

    def sample(self, messages: Any, *, max_tokens: int, key: str = "", **options: Any) -> CreateMessageResult:
        """Ask as ``asample`` does, for synchronous code."""
        return self._wait(lambda: self.asample(messages, max_tokens=max_tokens, key=key, **options))

    async def aroots(self, *, key: str = "") -> list[dict[str, Any]]:
        """Return the client's roots. They are information only and grant no access (ROOT-03)."""
        return await self._ask(questions.roots(), key)

    def roots(self, *, key: str = "") -> list[dict[str, Any]]:
        """Return the roots as ``aroots`` does, for synchronous code."""
        return self._wait(lambda: self.aroots(key=key))

    def gather(self, *asked: Coroutine[Any, Any, Any]) -> list[Any]:
        """Ask several questions at once in synchronous code, and return the answers in the same order.

        The arguments are coroutines of the ``a…`` methods. Async code uses ``asyncio.gather`` instead.
        """
        try:
            return self._wait(lambda: _together(asked))
        finally:
            for question in asked:
                if getcoroutinestate(question) == CORO_CREATED:
                    question.close()

    def once(self, key: str, function: Callable[[], Any], *, single_use: bool = False) -> Any:
        """Run ``function`` only once in this call, and return its value as JSON values.

        On 2026-07-28, code that asks questions is run again from the start, with the answers given so far.
        Use this method for effects that must not happen twice and for values that must not change between
        the runs. With ``single_use``, the ``requestState`` of the client's next request is accepted only
        once.
        """
        self.raise_if_cancelled()
        if key not in self._inputs.done:
            with self._effect():
                self._inputs.store_result(key, jsonable(settle(function())), single_use=single_use)
        return deepcopy(self._inputs.done[key])

    async def aonce(
        self, key: str, function: Callable[[], Awaitable[Any]], *, single_use: bool = False
    ) -> Any:
        """Run ``function`` only once, as ``once`` does, for async code."""
        self.raise_if_cancelled()
        if key not in self._inputs.done:
            with self._effect():
                self._inputs.store_result(key, jsonable(await function()), single_use=single_use)
        return deepcopy(self._inputs.done[key])

    def has_value(self, key: str) -> bool:
        """Return True if ``once`` has a value for ``key``."""
        return self._call.inputs is not None and key in self._call.inputs.done

    async def arelay(self, method: str, params: Mapping[str, Any], *, key: str) -> dict[str, Any]:
        """Ask a question of another server, and return the client's result as it is sent on the wire.

        Raise CannotAsk and ToolError as ``aelicit`` does, and ValueError for an invalid question.
        """
        return await self._ask(relayed(method, params), key)

    @property
    def suspended(self) -> bool:
        """True if this run ends with questions, and another run continues with the answers."""
        return self._call.suspended

    async def aread_resource(self, uri: str) -> dict[str, Any]:
        """Read a resource of this server with the caller's rights. Return the ``resources/read`` result."""
        return await self._read(self._call, uri)

    def may_read(self, uri: str) -> bool:
        """Return True if ``uri`` is a resource of this server that the caller may read."""
        return self._call.catalogue.resource(uri) is not None

    def read_resource(self, uri: str) -> dict[str, Any]:
        """Read a resource as ``aread_resource`` does, for synchronous code."""
        return self._wait(lambda: self._read(self._call, uri))

    def _wait(self, question: Callable[[], Awaitable[T]]) -> T:
        return self._call.run_from_thread(question)

    @property
    def _inputs(self) -> Inputs:
        if self._call.inputs is None:
            self._call.inputs = Inputs()
        return self._call.inputs

    async def _ask(self, question: Question[T], key: str) -> T:
        """Ask the question if the client's declared capabilities and its revision allow it (CAP-02)."""
        if reason := unaskable.get():
            raise RuntimeError(reason)
        call, method = self._call, question.method
        session, inputs = call.session, call.inputs or Inputs()
        call.inputs, key = inputs, inputs.key_of(method, key)
        version, declared = session.version, session.capabilities
        if missing := [capability for capability in question.needed if not getattr(declared, capability)]:
            words = ", ".join(missing).replace("_", " ")
            text = f"The client does not support {method}: it did not declare {words}."
            raise CannotAsk(text, question.needed)
        params = downlevel.message(method, question.params, version)
        if params is None:
            raise CannotAsk(downlevel.why_not(method, question.params, version))
        if is_modern(version) or inputs.kept:
            if is_modern(version) and call.method not in METHODS:
                raise ToolError(f"{call.method} cannot ask on revision {version}.")
            return await self._look_up(question, params, key)
        try:
            return question.read(await call.ask(method, params))
        except ClientFailed as error:
            raise ToolError(_refused(method, error.code, error.message)) from None
        except NoAnswer as error:
            raise ToolError(str(error)) from None

    async def _look_up(self, question: Question[T], params: dict[str, Any], key: str) -> T:
        """Return the answer that the request includes.

        If it has no valid answer, end the call with questions (MRTR-13).
        """
        inputs = self._inputs
        answer = inputs.answer(key, question.method, params)
        if answer is not None:
            if "error" in answer and not is_modern(self.protocol_version):
                inputs.accept(key, answer)
                raise ToolError(_refused(question.method, **answer["error"]))
            try:
                if not is_answer(question.method, answer):
                    raise ToolError("the answer does not match the question")
                value = question.read(answer)
            except ToolError as wrong:
                log.info("The question %r is repeated because its answer is invalid: %s", key, wrong)
                inputs.refuse(key)
            else:
                inputs.accept(key, answer)
                return value
        inputs.leave_open(key, question.method, params)
        await self._call.wait_for_next_round()
        raise AssertionError("Nothing ends that but the end of the call.")

    @contextmanager
    def _effect(self) -> Iterator[None]:
        """Within this context, prevent questions in other tasks of the call from ending the call."""
        under_way, mark, call = self._inputs.effects, object(), self._call
        under_way.add(mark)
        before = unaskable.set(IN_EFFECT)
        try:
            yield
        finally:
            unaskable.reset(before)
            under_way.discard(mark)
            if self._inputs.requests:
                call.loop.call_soon_threadsafe(call.suspend)


def _refused(method: str, code: int, message: str) -> str:
    return f"The client refused {method}: {message[:200]} ({code})."


async def _together(asked: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
    tasks = [asyncio.ensure_future(question) for question in asked]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
