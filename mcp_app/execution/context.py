"""What tool, prompt and resource code sees of its caller: one API for every revision.

Names come in Django's pairs: the plain name blocks and is for synchronous code, the ``a…`` name is awaited.
``progress``, ``track``, the log methods and ``cancelled`` never block and have one name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from django.conf import settings as django_settings

from mcp_app.catalogue.content import ToolError
from mcp_app.database import aquery
from mcp_app.execution.call import Call, Cancelled
from mcp_app.execution.questions import Answer, Form
from mcp_app.protocol import downlevel, elicitation, sampling
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.errors import InvalidAnswer
from mcp_app.protocol.versions import is_modern
from mcp_app.sessions.client_requests import ClientFailed, NoAnswer

T = TypeVar("T")
ReadResource = Callable[[str], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Client:
    """The connected client; its name and version are untrusted text."""

    name: str
    version: str
    capabilities: ClientCapabilities

    def can(self, capability: str) -> bool:
        """Whether the client declared ``roots``, ``sampling``, ``sampling_tools``, ``elicitation_form``, …"""
        return bool(getattr(self.capabilities, capability, False))


class Context:
    """Handed to code that declares a parameter of this type; the parameter is hidden from clients."""

    __mcp_context__ = True
    __slots__ = ("_call", "_read")

    def __init__(self, call: Call, read: ReadResource) -> None:
        self._call = call
        self._read = read

    @property
    def request_id(self) -> str | int:
        """The JSON-RPC id of the request."""
        return self._call.request_id

    @property
    def protocol_version(self) -> str:
        """The negotiated revision."""
        return self._call.session.version

    @property
    def session_id(self) -> str:
        """The session's id; never a credential."""
        return self._call.session.id

    @property
    def client(self) -> Client:
        """The client's name, version and capabilities."""
        session = self._call.session
        info = session.client_info
        return Client(str(info.get("name", "")), str(info.get("version", "")), session.capabilities)

    @property
    def user(self) -> Any:
        """The Django user behind the credential, or AnonymousUser. Queries the database; see ``auser``."""
        from django.contrib.auth import get_user_model
        from django.contrib.auth.models import AnonymousUser

        user_id = self._call.principal.user_id
        return AnonymousUser() if user_id is None else get_user_model().objects.get(pk=user_id)

    async def auser(self) -> Any:
        """As ``user``, for async code."""
        return await aquery(lambda: self.user)

    @property
    def meta(self) -> dict[str, Any]:
        """The ``_meta`` of the request as it was sent; untrusted (META-08)."""
        return self._call.meta

    @property
    def traceparent(self) -> str:
        """The W3C trace context that work for this call continues; empty when it belongs to no trace."""
        return self.trace_headers.get("traceparent", "")

    @property
    def trace_headers(self) -> dict[str, str]:
        """``traceparent`` and ``tracestate`` as headers, for services of your own; nobody else's business."""
        context = self._call.trail.context
        return {} if context is None else context.headers

    def has_permission(self, permission: str) -> bool:
        """Whether the caller holds a Django permission (``app_label.codename``)."""
        return permission in self._call.principal.permissions

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress; values that do not increase are dropped. Raises Cancelled when nobody waits."""
        self.raise_if_cancelled()
        self._call.progress(progress, total, message)

    def track(self, items: Iterable[T], message: str = "") -> Iterator[T]:
        """Yield ``items``, reporting progress and checking for cancellation before each.

        ``message`` may hold ``{}`` for the number of the item.
        """
        total = float(len(items)) if isinstance(items, Sized) else None
        for number, item in enumerate(items):
            self.progress(number, total, message.replace("{}", str(number + 1)) or None)
            yield item
        if total:
            self.progress(total, total)

    async def atrack(self, items: Iterable[T], message: str = "") -> AsyncIterator[T]:
        """As ``track``, for async code; gives way to other requests between items."""
        for item in self.track(items, message):
            await asyncio.sleep(0)
            yield item

    def log(self, level: str, message: Any, *, logger: str = "", **data: Any) -> None:
        """Send a log message to the client, if its log level asks for it. Never send secrets (LOG-05)."""
        content = {"message": message, **data} if data else message
        self._call.log_message(level, content, logger or self._call.target)

    def debug(self, message: Any, **data: Any) -> None:
        """A log message of level debug."""
        self.log("debug", message, **data)

    def info(self, message: Any, **data: Any) -> None:
        """A log message of level info."""
        self.log("info", message, **data)

    def warning(self, message: Any, **data: Any) -> None:
        """A log message of level warning."""
        self.log("warning", message, **data)

    def error(self, message: Any, **data: Any) -> None:
        """A log message of level error."""
        self.log("error", message, **data)

    @property
    def cancelled(self) -> bool:
        """Whether the caller no longer waits; cheap."""
        return self._call.stopped

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled when the caller no longer waits."""
        if self._call.stopped:
            raise Cancelled

    def close_stream(self, retry_ms: int = 1000) -> None:
        """Let a 2025-11-25 client poll: its connection closes and it comes back after ``retry_ms``."""
        self._call.close_stream(retry_ms)

    async def aelicit(self, message: str, form: Any = None) -> Answer:
        """Ask the person behind the client to fill in a form.

        ``form`` is a JSON Schema of flat simple properties, a simple type, or a model, dataclass or TypedDict
        of such. Raises ToolError when the client cannot be asked, does not answer, or answers wrongly.
        """
        question = Form({"type": "object", "properties": {}} if form is None else form)
        elicitation.check_form(question.schema)
        params = {"mode": "form", "message": message, "requestedSchema": question.schema}
        return _answer(await self._ask(("elicitation_form",), "elicitation/create", params), question)

    def elicit(self, message: str, form: Any = None) -> Answer:
        """As ``aelicit``, for synchronous code."""
        return self._wait(lambda: self.aelicit(message, form))

    async def aelicit_url(self, message: str, url: str, elicitation_id: str) -> Answer:
        """Ask the person to open ``url``; its page must check that the same user opens it (ELI-11)."""
        elicitation.check_url(url, allow_http=django_settings.DEBUG)
        params = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
        return _answer(await self._ask(("elicitation_url",), "elicitation/create", params), None)

    def elicit_url(self, message: str, url: str, elicitation_id: str) -> Answer:
        """As ``aelicit_url``, for synchronous code."""
        return self._wait(lambda: self.aelicit_url(message, url, elicitation_id))

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the step behind a URL elicitation is done (ELI-07)."""
        self._call.send("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    async def asample(self, messages: Any, *, max_tokens: int, **options: Any) -> dict[str, Any]:
        """Have the client's model continue ``messages`` (a text, or sampling messages); returns its result.

        ``options`` are members of ``sampling/createMessage`` in snake case: system_prompt, temperature, …
        """
        params = sampling.build_params(messages, max_tokens=max_tokens, **options)
        needed = sampling.needed_capabilities(params)
        result = await self._ask(needed, "sampling/createMessage", params)
        try:
            return sampling.check_result(result)
        except InvalidAnswer as error:
            raise ToolError(error.message) from None

    def sample(self, messages: Any, *, max_tokens: int, **options: Any) -> dict[str, Any]:
        """As ``asample``, for synchronous code."""
        return self._wait(lambda: self.asample(messages, max_tokens=max_tokens, **options))

    async def aroots(self) -> list[dict[str, Any]]:
        """The client's roots; informational, never an access control (ROOT-03)."""
        result = await self._ask(("roots",), "roots/list", {})
        roots = result.get("roots")
        return [root for root in roots if _is_root(root)] if isinstance(roots, list) else []

    def roots(self) -> list[dict[str, Any]]:
        """As ``aroots``, for synchronous code."""
        return self._wait(self.aroots)

    async def aread_resource(self, uri: str) -> dict[str, Any]:
        """Read one of this server's resources as the caller may; returns the ``resources/read`` result."""
        return await self._read(uri)

    def read_resource(self, uri: str) -> dict[str, Any]:
        """As ``aread_resource``, for synchronous code."""
        return self._wait(lambda: self._read(uri))

    def _wait(self, question: Callable[[], Awaitable[T]]) -> T:
        return self._call.run_from_thread(question)

    async def _ask(self, needed: Sequence[str], method: str, params: dict[str, Any]) -> dict[str, Any]:
        """CAP-02: a client is only asked what it declared, in a form that its revision knows."""
        if is_modern(self.protocol_version):
            raise ToolError(f"Clients of revision {self.protocol_version} cannot be asked yet.")
        client = self.client
        if missing := [capability for capability in needed if not client.can(capability)]:
            words = ", ".join(missing).replace("_", " ")
            raise ToolError(f"The client does not support {method}: it did not declare {words}.")
        if downlevel.message(method, params, self.protocol_version) is None:
            raise ToolError(downlevel.why_not(method, params, self.protocol_version))
        try:
            return await self._call.ask(method, params)
        except ClientFailed as error:
            raise ToolError(f"The client refused {method}: {error.message[:200]} ({error.code}).") from None
        except NoAnswer as error:
            raise ToolError(str(error)) from None


def _answer(result: Mapping[str, Any], form: Form | None) -> Answer:
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise ToolError("The client's answer to the elicitation has no valid action.")
    if action != "accept" or form is None:
        return Answer(action)
    content = result.get("content")
    if not isinstance(content, dict):
        raise ToolError("The client accepted the elicitation without any content.")
    problem = elicitation.check_answer(form.schema, content)
    if problem is not None:
        raise ToolError(f"The client's answer does not fit the form: {problem}")
    return Answer(action, content, form.read(content))


def _is_root(root: Any) -> bool:
    """ROOT-04: only file URIs without traversal; the rest is untrusted noise."""
    uri = root.get("uri") if isinstance(root, dict) else None
    return isinstance(uri, str) and uri.startswith("file:///") and "/.." not in unquote(uri)
