"""The processing of messages in one process: from a message, its principal and session to a result.

Apart from the status of errors, it does not depend on HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from time import perf_counter
from types import CoroutineType
from typing import Any

from django.db import Error as DatabaseFault

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.calls.reply import ACCEPTED, Answered, Reply, StreamReference
from mcp_app.execution.calls.results import unexpected
from mcp_app.handlers import lifecycle, notifications, tools
from mcp_app.handlers.context import CallerContext, RequestContext, Services
from mcp_app.handlers.table import by_version, quick_by_version, unknown
from mcp_app.metrics import tally
from mcp_app.observability.correlation import Correlation, correlated
from mcp_app.protocol import dialects
from mcp_app.protocol.errors import McpError, SessionNotFound, Unavailable, fitted
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.methods import OTHER
from mcp_app.protocol.refusals import Code, code_in, refused
from mcp_app.protocol.versions import V2025_03_26
from mcp_app.sessions.client_requests import without_content, without_contents
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.negotiated import Negotiated
from mcp_app.sessions.quota import admit
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.base import SessionEnded, StreamFinished, StreamsUnavailable

log = logging.getLogger("mcp.dispatcher")


class Dispatcher:
    """The dispatcher of one process. All transports use it."""

    def __init__(self, services: Services) -> None:
        settings = services.settings
        self._services = services
        self._settings = settings
        self._streams = services.streams
        self._log = services.log
        self._counts = services.counts
        # The sessions and streams to which calls in this process may still write answers.
        self.writing: set[tuple[str, str]] = set()
        # Methods by revision. Extensions add methods, so the table is complete only once all apps are
        # loaded.
        self.methods = by_version(settings)
        self._quick = quick_by_version()
        self._notifications = notifications.table(settings.dialects)

    def run_every_call_with_its_span(self) -> None:
        """Disable the fast synchronous path for tool calls, which would create no spans."""
        for table in self._quick.values():
            table.pop("tools/call", None)

    async def initialize(
        self,
        principal: Principal,
        catalogue: CatalogueView,
        request: jsonrpc.Request,
        payload: bytes,
        address: str,
        session: LiveSession | None = None,
        assumed: str = V2025_03_26,
    ) -> Answered:
        """Open a session (LIFE-01), or initialize the given one.

        ``assumed`` is the revision if none is sent.
        """
        started = perf_counter()
        try:
            session, result = await lifecycle.initialize(
                self._services, principal, catalogue, request.params, address, session, assumed
            )
            encoded, error = jsonrpc.encode_result(request.id, result), None
        except McpError as raised:
            encoded, error = jsonrpc.encode_error(raised, request.id), raised
        except StreamsUnavailable:
            error = Unavailable(NO_REDIS)
            encoded = jsonrpc.encode_error(error, request.id)
        session_id = session.id if session else None
        outcome, refusal = ("ok", "") if error is None else ("error", error.refusal)
        facts = ("initialize", request.id, "")
        self._log_exchange(session_id, principal, payload, encoded, started, outcome, facts, refusal=refusal)
        if error is not None:
            return Answered(encoded, error.http_status, error.headers)
        return Answered(encoded, session_id=session_id)

    async def request(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        trace_fields: Mapping[str, str] | None = None,
    ) -> Answered | StreamReference:
        """Serve one request. Return its answer, or a stream if the answer takes longer."""
        answer = self.quick(asked, request, payload)
        if answer is not None:
            return Answered(answer)
        reply = Reply(self._streams, asked.session, 1, self.writing)
        error = await self._serve(asked, request, payload, reply, trace_fields)
        if error is not None:
            return Answered(reply.answers[0], error.http_status, error.headers)
        return await self.outcome(asked.session, request, reply, self._settings.grace_seconds)

    async def outcome(
        self, session: Negotiated, request: jsonrpc.Request, reply: Reply, grace: float
    ) -> Answered | StreamReference:
        """Return the response to a request that was started.

        Wait for its answer for at most ``grace`` seconds.
        """
        if reply.answers or await reply.settled(grace):
            if reply.error is not None:
                encoded = jsonrpc.encode_error(fitted(reply.error, session.version), request.id)
                return Answered(encoded, reply.error.http_status, reply.error.headers)
            return Answered(reply.answers[0])
        return StreamReference(reply.stream, reply.epoch, 0)

    async def exchange(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        trace_fields: Mapping[str, str] | None = None,
    ) -> ExchangeReply:
        """Start to serve one modern request. Its messages and its answer arrive on the returned reply."""
        payload = without_contents(request, payload)
        reply = self._exchange_reply(asked.session, request)
        reply.error = await self._serve(asked, request, payload, reply, trace_fields)
        await reply.settled(self._settings.grace_seconds)
        return reply

    def _exchange_reply(self, exchange: Negotiated, request: jsonrpc.Request) -> ExchangeReply:
        return ExchangeReply(
            self._streams, self._services.background, self._settings, exchange.id, request.id
        )

    async def abandon(self, exchange: Negotiated, request_id: jsonrpc.Id) -> None:
        """Cancel a modern request whose client has disconnected.

        The call may run in any process (CAN-05, R8).
        """
        reason = "the client disconnected"
        if not self._services.calls.cancel(exchange.id, request_id, reason):
            await self._services.background.cancel(exchange.id, request_id, reason)

    def refused(
        self,
        principal: Principal,
        catalogue: CatalogueView,
        request: jsonrpc.Request,
        payload: bytes,
        encoded: bytes,
    ) -> None:
        """Log a request that its transport has answered with an error."""
        facts = (request.method, request.id, "")
        self._log_exchange(
            None, principal, payload, encoded, perf_counter(), "error", facts, _tool(request, catalogue)
        )

    def quick(self, asked: CallerContext, request: jsonrpc.Request, payload: bytes) -> bytes | None:
        """Return the answer to a request that needs no waiting.

        For any other request, return None and change nothing. Every transport calls this method first, so
        that all of them answer requests alike.
        """
        session, search = asked.session, asked.catalogue.snapshot.search
        if search is not None and request.method == "tools/call":
            request.params = search.relayed(asked.catalogue, request.params) or request.params
        handler = self._quick[session.version].get(request.method)
        if handler is None or request.id in session.in_flight:
            return None
        started = perf_counter()
        try:
            result = handler(asked, request.params)
        except McpError:
            return None  # The regular path raises the same error and logs it.
        if result is None:
            return None
        outcome = "ok"
        if isinstance(result, McpError):
            encoded, outcome = jsonrpc.encode_error(fitted(result, session.version), request.id), "error"
        else:
            encoded = session.answer(request, result)
            if type(result) is dict and result.get("isError"):
                outcome = "tool_error"
        target = request.params["name"] if request.method == "tools/call" else ""
        seconds = perf_counter() - started
        self._counts.done(request.method, outcome, target, seconds)
        if self._log.enabled:
            facts = (request.method, request.id, target)
            key = asked.principal.key
            self._log.exchange(session.record_id, key, payload, encoded, seconds, outcome, facts)
        return encoded

    def begin(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        trace_fields: Mapping[str, str] | None,
    ) -> bytes | Reply | ExchangeReply | None:
        """Start a tool call that ``quick`` does not answer. Return its answer if it finishes in one step.

        If the tool waits, return the reply that will get the answer. For any other request, return None and
        change nothing.
        """
        method, session = request.method, asked.session
        if method != "tools/call" or method not in self._quick[session.version]:
            return None
        reply: Reply | ExchangeReply
        if isinstance(session, Exchange):
            payload, reply = without_contents(request, payload), self._exchange_reply(session, request)
        else:
            reply = Reply(self._streams, session, 1, self.writing)
        context = RequestContext(
            self._services,
            session,
            asked.principal,
            asked.catalogue,
            reply,
            request.id,
            method,
            payload,
            trace_fields,
        )
        try:
            if not tools.begin(context, request.params):
                return None
        except McpError:
            return None  # As above.
        return reply.whole or reply

    async def batch(
        self,
        asked: CallerContext,
        members: list[jsonrpc.Message | jsonrpc.Invalid],
        trace_fields: Mapping[str, str] | None = None,
    ) -> Answered | StreamReference:
        """Serve a batch (BATCH-01 to BATCH-08). Its requests run at the same time and share one reply."""
        session = asked.session
        assert isinstance(session, LiveSession)  # other revisions have no batches
        if self._streams.quota.refused(session.principal_key):
            await self.admit(asked, members)
        answered = [member for member in members if isinstance(member, jsonrpc.Request | jsonrpc.Invalid)]
        reply = Reply(self._streams, session, len(answered), self.writing, shared=True)
        for member in members:
            payload = jsonrpc.encode_member(member)
            if isinstance(member, jsonrpc.Request):
                await self._serve(asked, member, payload, reply, trace_fields)
            elif isinstance(member, jsonrpc.Invalid):
                reply.answer(payload)
            else:
                await self._take_in(session, member, payload, must=not answered)
        if not answered:
            return ACCEPTED
        if await reply.settled(self._settings.grace_seconds):
            return Answered(b"[" + b",".join(reply.answers) + b"]")
        return StreamReference(reply.stream, reply.epoch, 0)

    async def admit(
        self, asked: CallerContext, messages: Iterable[jsonrpc.Message | jsonrpc.Invalid]
    ) -> None:
        """Admit messages whose answers need a stored stream. Raise McpError if there is no room.

        A refusal is counted and logged for each request, like a refusal of the gate.
        """
        started, session = perf_counter(), asked.session
        try:
            await admit(self._streams, session.principal_key)
        except McpError as raised:
            error = raised
        except StreamsUnavailable:
            error = refused(Code.UNAVAILABLE, NO_REDIS, 1)
        else:
            return
        for message in messages:
            if isinstance(message, jsonrpc.Request):
                encoded = jsonrpc.encode_error(fitted(error, session.version), message.id)
                payload = jsonrpc.encode_member(message)
                self._note_answer(asked, message, payload, encoded, started, "error", error.refusal)
        raise error

    async def end_session(self, session: LiveSession, reason: str) -> None:
        """End a session and all its work in every process (SES-07)."""
        self._log.fact("session.ended", session=session.id, reason=reason, principal=session.principal_key)
        # Most sessions have no background calls, so this usually does not query the database.
        with suppress(StreamsUnavailable):
            if await self._services.sessions.end_without_calls(session, reason):
                return
        # Use a separate task, because the caller may be synchronous and have no task.
        await asyncio.create_task(self._end_with_calls(session, reason))

    async def _end_with_calls(self, session: LiveSession, reason: str) -> None:
        try:
            await self._services.background.cancel_session(session.id, reason)
        except DatabaseFault as error:
            log.warning("Background calls of an ended session could not be stopped: %s", error)
        await self._services.sessions.end(session.id, reason)

    async def _take_in(
        self,
        session: LiveSession,
        member: jsonrpc.Notification | jsonrpc.Response,
        payload: bytes,
        *,
        must: bool,
    ) -> None:
        """Process a notification or response in a batch.

        If Redis is unavailable, log the loss of the message. With ``must``, raise StreamsUnavailable instead.
        """
        try:
            if isinstance(member, jsonrpc.Notification):
                await self.notification(session, member, payload)
            else:
                await self.response(session, member, payload)
        except StreamsUnavailable as error:
            if must:
                raise
            log.warning("A message of a batch was lost: %s", error)

    async def notification(self, session: LiveSession, message: jsonrpc.Notification, payload: bytes) -> None:
        """Process a notification. Unknown notifications are logged and ignored (RPC-06)."""
        self._log.single(session.id, session.principal_key, "in", "notification", payload, message.method)
        handler = self._notifications.get(message.method)
        if handler is not None:
            await handler(self._services, session, message.params)
        elif message.method == dialects.EXIT and dialects.EXIT in self._settings.dialects:
            await self.end_session(session, "the client said exit")  # DLG-000-02: like DELETE

    async def response(self, session: LiveSession, message: jsonrpc.Response, payload: bytes) -> None:
        """Process the client's answer to one of the server's questions (T-POST-09)."""
        logged = without_content(message, payload)
        self._log.single(session.id, session.principal_key, "in", "response", logged, "", str(message.id))
        taken = await self._services.background.answer_core_task(session.id, message)
        if taken is None:
            taken = await self._services.requests.answer(session, message)
        if not taken:
            log.info("A response with id %.80r does not match an open question", message.id)

    async def _serve(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        reply: Reply | ExchangeReply,
        trace_fields: Mapping[str, str] | None,
    ) -> McpError | None:
        """Answer ``request`` on ``reply``, now or when its call ends.

        Return the error if the request was refused at once.
        """
        started, session, principal = perf_counter(), asked.session, asked.principal
        context = RequestContext(
            self._services,
            session,
            principal,
            asked.catalogue,
            reply,
            request.id,
            request.method,
            payload,
            trace_fields,
        )
        error: McpError | None = None
        refusal = ""
        search = asked.catalogue.snapshot.search
        if search is not None and request.method == "tools/call":
            request.params = search.relayed(asked.catalogue, request.params) or request.params
        try:
            handler = self.methods[session.version].get(request.method)
            if handler is None:
                raise unknown(request.method)
            result = handler(context, request.params)
            if type(result) is CoroutineType:
                result = await result
            if result is None:
                return None
            encoded = session.answer(request, result)  # type: ignore[arg-type]
            outcome = "tool_error" if type(result) is dict and result.get("isError") else "ok"
            refusal = code_in(result)
        except McpError as raised:
            error = raised
        except (SessionEnded, StreamFinished):
            error = SessionNotFound()
        except StreamsUnavailable:
            error = refused(Code.UNAVAILABLE, NO_REDIS, 1)
        except Exception:  # noqa: BLE001 - the boundary: any exception of a handler becomes an answer
            with correlated(Correlation(session.id, "", request.id, principal.key)):
                error = unexpected(request.method, "")
        if error is not None:
            encoded, outcome = jsonrpc.encode_error(fitted(error, session.version), request.id), "error"
            refusal = error.refusal
        reply.answer(encoded)
        self._note_answer(asked, request, payload, encoded, started, outcome, refusal)
        return error

    def _note_answer(
        self,
        asked: CallerContext,
        request: jsonrpc.Request,
        payload: bytes,
        encoded: bytes,
        started: float,
        outcome: str,
        refusal: str,
    ) -> None:
        session_id, tool = asked.session.record_id, _tool(request, asked.catalogue)
        facts = (request.method, request.id, "" if tool == OTHER else tool)
        self._log_exchange(
            session_id, asked.principal, payload, encoded, started, outcome, facts, tool, refusal
        )

    def _log_exchange(
        self,
        session_id: str | None,
        principal: Principal,
        payload: bytes,
        encoded: bytes,
        started: float,
        outcome: str,
        facts: tuple[str, Any, str],
        tool: str = "",
        refusal: str = "",
    ) -> None:
        seconds = perf_counter() - started
        self._counts.done(facts[0], outcome, tool, seconds)
        if refusal:
            tally.refused(refusal)
        if self._log.enabled:
            self._log.exchange(session_id, principal.key, payload, encoded, seconds, outcome, facts, refusal)


NO_REDIS = "The server cannot reach its Redis now. Try again in a moment."


def _tool(request: jsonrpc.Request, catalogue: CatalogueView) -> str:
    """Return the name of the called tool, OTHER if the caller has no such tool, or "" for other methods."""
    if request.method != "tools/call":
        return ""
    name = request.params.get("name")
    offered = type(name) is str and catalogue.tool(name)
    return offered.name if offered else OTHER
