"""A client for tests of applications, which runs the server's code in the test's process.

By default it needs no Redis and no database. Messages pass through the real code from the parser to the
answer. Only HTTP is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson
from django.conf import settings as django_settings
from django.test.utils import override_settings

from mcp_app import conf
from mcp_app.auth.principal import EVERYTHING, Principal
from mcp_app.catalogue.snapshots import current_snapshot, snapshot_loader
from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.database.queries import aquery
from mcp_app.execution.calls.reply import Answered, StreamReference
from mcp_app.handlers.context import CallerContext
from mcp_app.process import Process
from mcp_app.protocol.capabilities import extension_members
from mcp_app.protocol.messages import envelope, jsonrpc
from mcp_app.protocol.versions import LEGACY, is_modern
from mcp_app.sessions import resource_updates
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.gateway import Streams
from mcp_app.testing.answers import Answers, Handler, Params, unwrap
from mcp_app.testing.news import Notifications

WAIT_SECONDS = 30.0
CLIENT_INFO = {"name": "mcp_app.testing", "version": "1"}

_without: list[object] = []
_overrides: list[override_settings] = []


@dataclass(slots=True)
class Client:
    """A test client with a session, to which by default all entries from code are offered.

    ::

        async with Client() as client:
            result = await client.call_tool("add", {"a": 1, "b": 2})

    ``user`` and ``permissions`` define the caller. By default the user's own permissions apply.
    ``stored=True`` serves the stored catalogue with changes by administrators. It needs
    ``manage.py mcp_prepare`` or ``mirror()``, and a test that may use transactions.
    ``approved=True`` runs tools that need approval without it. By default calls of such tools are refused.
    ``extensions`` are the ids of declared extensions, or their settings by id.
    ``timeout`` is the maximum duration of one request with its questions, in seconds.
    ``version`` is the protocol revision, by default the newest revision with sessions. ``notifications``
    collects the server's notifications, and ``notification`` waits for the next.
    """

    user: Any = None
    permissions: Collection[str] | None = None
    version: str = ""
    stored: bool = False
    approved: bool = False
    elicit: Params | str | Handler | None = None
    sample: str | Handler | None = None
    roots: Iterable[str] | None = None
    extensions: Iterable[str] | Mapping[str, Params] = ()
    timeout: float = 60.0
    notifications: list[tuple[str, Params]] = field(default_factory=list)
    server: Params = field(default_factory=dict)
    _process: Process = field(init=False, repr=False)
    _session: LiveSession | None = field(init=False, default=None, repr=False)
    _principal: Principal = field(init=False, repr=False)
    _before: Any = field(init=False, default=None, repr=False)
    _undo: AsyncExitStack = field(init=False, repr=False)
    _count: int = field(init=False, default=0, repr=False)
    _news: Notifications = field(init=False, repr=False)

    async def __aenter__(self) -> Self:
        """Load the catalogue and open a session."""
        async with AsyncExitStack() as undo:
            undo.enter_context(_without_redis())
            await self._open()
            self._undo = undo.pop_all()
        return self

    async def _open(self) -> None:
        settings = replace(conf.get(), message_log=False)
        self._principal = await aquery(self._who)
        self._before = current_snapshot.replace(await aquery(self._catalogue))
        self._process = Process(Streams.in_memory(settings), settings)
        self._process.sessions.start()
        await self._process.streams.start()
        self._news = Notifications(self._process, self.notifications)
        version = self.version or max(filter(LEGACY.__contains__, settings.versions))
        if is_modern(version):
            self.server = await self.request("server/discover")
        else:
            await self._initialize(version)
        # Registration is the last step, so that an earlier failure leaves nothing registered.
        resource_updates.serve_here(self._process.streams)

    async def __aexit__(self, *_: object) -> None:
        """End the session. Running calls get a moment to stop."""
        async with self._undo:
            await self._news.close()
            if self._session is not None:
                await self._process.sessions.end(self._session.id, "the test is over")
            await self._process.close()
            current_snapshot.replace(self._before)

    async def request(
        self, method: str, params: Params | None = None, *, on_progress: Handler | None = None
    ) -> Params:
        """Send any request and return its result. Raises RequestError if the server returns an error.

        ``on_progress`` receives the params of each progress notification. Cancelling the awaiting task
        cancels the request at the server. On 2026-07-28 the client answers the questions in a result and
        repeats the request until the result is complete. Raises TimeoutError after ``timeout`` seconds in
        total.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self._request(method, params, on_progress)
        except TimeoutError:
            raise TimeoutError(f"{method} was not answered within {self.timeout:g} s") from None

    async def _request(self, method: str, params: Params | None, on_progress: Handler | None) -> Params:
        if self._session is None:
            return await self._rounds(method, dict(params or {}), on_progress)
        self._count += 1
        number, sent = self._count, dict(params or {})
        if on_progress is not None:
            sent["_meta"] = {**sent.get("_meta", {}), "progressToken": number}
        payload = jsonrpc.encode_request(number, method, sent)
        request = jsonrpc.Request(number, method, orjson.loads(payload).get("params", {}))
        try:
            answered = await self._process.dispatcher.request(self._asked(self._session), request, payload)
            return await self._result(answered, self._session.id, number, on_progress)
        except asyncio.CancelledError:
            await self.notify("notifications/cancelled", {"requestId": number})
            raise

    async def notify(self, method: str, params: Params | None = None) -> None:
        """Send any notification. On 2026-07-28 clients have no notifications, so nothing is sent."""
        if self._session is None:
            return
        payload = jsonrpc.encode_notification(method, params)
        message = jsonrpc.Notification(method, dict(params or {}))
        await self._process.dispatcher.notification(self._session, message, payload)

    async def call_tool(
        self, name: str, arguments: Params | None = None, *, on_progress: Handler | None = None
    ) -> Params:
        """Call a tool and return the ``CallToolResult``, in which ``isError`` is always present."""
        params = {"name": name, "arguments": arguments or {}}
        result = await self.request("tools/call", params, on_progress=on_progress)
        # The specification lets servers omit a false isError.
        return {"isError": False, **result}

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> Params:
        """Return the ``GetPromptResult``."""
        return await self.request("prompts/get", {"name": name, "arguments": arguments or {}})

    async def read_resource(self, uri: str) -> list[Params]:
        """Return the contents of a resource."""
        contents: list[Params] = (await self.request("resources/read", {"uri": uri}))["contents"]
        return contents

    async def subscribe(self, uri: str) -> None:
        """Subscribe to ``notifications/resources/updated`` for this resource, in any revision."""
        if self._session is not None:
            await self.request("resources/subscribe", {"uri": uri})
        else:
            exchange = self._exchange_of(self._envelope())
            await self._news.subscribe(self._asked(exchange), uri)

    async def notification(self, method: str) -> Params:
        """Return the params of the next notification of this method. Wait if none has arrived.

        Raises TimeoutError after ``timeout`` seconds.
        """
        try:
            async with asyncio.timeout(self.timeout):
                return await self._news.next(method)
        except TimeoutError:
            raise TimeoutError(f"{method} did not come within {self.timeout:g} s") from None

    async def complete(self, ref: Params, argument: str, value: str, **known: str) -> list[str]:
        """Return the completions of an argument. ``known`` are arguments that are already filled in."""
        params = {"ref": ref, "argument": {"name": argument, "value": value}, "context": {"arguments": known}}
        values: list[str] = (await self.request("completion/complete", params))["completion"]["values"]
        return values

    async def list_tools(self) -> list[Params]:
        """Return all tools that this caller may use."""
        return await self._all("tools/list", "tools")

    async def list_prompts(self) -> list[Params]:
        """Return all prompts that this caller may use."""
        return await self._all("prompts/list", "prompts")

    async def list_resources(self) -> list[Params]:
        """Return all resources that this caller may read."""
        return await self._all("resources/list", "resources")

    async def list_templates(self) -> list[Params]:
        """Return all resource templates that this caller may read."""
        return await self._all("resources/templates/list", "resourceTemplates")

    async def _all(self, method: str, member: str) -> list[Params]:
        found: list[Params] = []
        params: Params = {}
        while True:
            result = await self.request(method, params)
            found += result[member]
            if "nextCursor" not in result:
                return found
            params = {"cursor": result["nextCursor"]}

    async def _initialize(self, version: str) -> None:
        params = {
            "protocolVersion": version,
            "capabilities": self._capabilities(version),
            "clientInfo": CLIENT_INFO,
        }
        payload = jsonrpc.encode_request(0, "initialize", params)
        request = jsonrpc.Request(0, "initialize", params)
        catalogue = self._process.views.of(self._principal.permissions)
        answered = await self._process.dispatcher.initialize(self._principal, catalogue, request, payload, "")
        self.server = unwrap(orjson.loads(answered.body))
        self._session = await self._process.sessions.load(answered.session_id or "", self._principal.key)
        await self.notify("notifications/initialized")
        await self._news.follow(self._session)

    async def _rounds(self, method: str, params: Params, on_progress: Handler | None) -> Params:
        while True:
            result = await self._exchange(method, params, on_progress)
            if result.get("resultType") != "input_required":
                return result
            asked: dict[str, Params] = result["inputRequests"]
            answers = self._answers()
            params["inputResponses"] = {
                key: await answers.to(each["method"], each["params"]) for key, each in asked.items()
            }
            params["requestState"] = result["requestState"]

    async def _exchange(self, method: str, params: Params, on_progress: Handler | None) -> Params:
        """Send one request of 2026-07-28, which has no state from earlier requests."""
        self._count += 1
        number, meta = self._count, {**params.get("_meta", {}), **self._envelope()}
        if on_progress is not None:
            meta["progressToken"] = number
        payload = jsonrpc.encode_request(number, method, {**params, "_meta": meta})
        request = jsonrpc.Request(number, method, orjson.loads(payload)["params"])
        exchange = self._exchange_of(meta)
        reply = await self._process.dispatcher.exchange(self._asked(exchange), request, payload)
        try:
            while not reply.is_plain:
                await reply.changed(WAIT_SECONDS)
                for message in reply.take():
                    await self._on_message(orjson.loads(message), on_progress)
        finally:
            reply.close()
            if not reply.answered:
                await self._process.dispatcher.abandon(exchange, number)
        return unwrap(orjson.loads(reply.answered))

    def _asked(self, session: Negotiated) -> CallerContext:
        """Return the context of a new request, with the current catalogue."""
        catalogue = self._process.views.of(self._principal.permissions)
        return CallerContext(self._process, session, self._principal, catalogue)

    def _exchange_of(self, meta: Params) -> Exchange:
        return Exchange(envelope.read({"_meta": meta}), self._principal.key, self._process.views.server)

    def _capabilities(self, version: str) -> Params:
        declared = self._answers().capabilities()
        if self.extensions:
            given = self.extensions
            settings = given if isinstance(given, Mapping) else {name: {} for name in given}
            declared[extension_members(version)[-1]] = settings
        return declared

    def _envelope(self) -> Params:
        return {
            envelope.VERSION: self.version,
            envelope.CLIENT_CAPABILITIES: self._capabilities(self.version),
            envelope.CLIENT_INFO: CLIENT_INFO,
            envelope.LOG_LEVEL: "info",
        }

    async def _result(
        self,
        answered: Answered | StreamReference,
        session_id: str,
        number: int,
        on_progress: Handler | None,
    ) -> Params:
        if isinstance(answered, Answered):
            return unwrap(orjson.loads(answered.body))
        reader = self._process.streams.reader(session_id, answered.stream, answered.epoch, answered.after)
        try:
            while not reader.finished:
                for event in await reader.next(WAIT_SECONDS):
                    message = orjson.loads(event.data) if event.kind != "close" and event.data else {}
                    if message.get("id") == number and "method" not in message:
                        return unwrap(message)
                    await self._on_message(message, on_progress)
        finally:
            reader.close()
        raise RuntimeError("The stream ended without an answer.")

    async def _on_message(self, message: Params, on_progress: Handler | None) -> None:
        """Process a question or notification that arrived before the answer."""
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            return
        if "id" in message:
            await self._answer(message["id"], method, params)
            return
        self._news.add(method, params)
        if method == "notifications/progress" and on_progress is not None:
            on_progress(params)

    async def _answer(self, number: str | int, method: str, params: Params) -> None:
        result = await self._answers().to(method, params)
        payload = jsonrpc.encode_result(number, result)
        assert self._session is not None
        await self._process.dispatcher.response(
            self._session, jsonrpc.Response(number, result, None), payload
        )

    def _answers(self) -> Answers:
        return Answers(self.elicit, self.sample, self.roots)

    def _catalogue(self) -> Any:
        catalogue = current_snapshot.refresh_now(force=True) if self.stored else snapshot_loader.from_code()
        return _AllApproved(catalogue) if self.approved else catalogue

    def _who(self) -> Principal:
        user = self.user
        if self.permissions is not None:
            held: Any = frozenset(self.permissions)
        elif user is None:
            held = frozenset()
        else:
            held = EVERYTHING if user.is_superuser else frozenset(user.get_all_permissions())
        key, name = ("test", "test") if user is None else (f"user:{user.pk}/test", str(user))
        return Principal(key=key, name=name, permissions=held, user_id=None if user is None else user.pk)


class _AllApproved:
    """A catalogue whose tools need no approval. Only the test client uses it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self.tools = {name: replace(entry, needs_approval=False) for name, entry in catalogue.tools.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)


def call_tool(name: str, arguments: Params | None = None, **options: Any) -> Params:
    """Run ``Client(**options).call_tool`` in tests that are not async."""

    async def call() -> Params:
        async with Client(**options) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(call())


@contextmanager
def _without_redis() -> Iterator[None]:
    """Override REDIS_URL with "", so that no test can send jobs or notifications to real workers and clients.

    Contexts may overlap in any order: the first changes the setting, and the last restores it.
    """
    mark = object()
    if not _without:
        _overrides.append(override_settings(MCP={**getattr(django_settings, "MCP", {}), "REDIS_URL": ""}))
        _overrides[0].enable()
    _without.append(mark)
    try:
        yield
    finally:
        _without.remove(mark)
        if not _without:
            _overrides.pop().disable()
