"""The context of a request: its principal, its session, and the services of this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots.current_snapshot import Views
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.background.exchange_reply import ExchangeReply
from mcp_app.execution.background.service import Background
from mcp_app.execution.calls.call import RunningCall
from mcp_app.execution.calls.calls import RunningCalls, Work
from mcp_app.execution.calls.context import Context
from mcp_app.execution.calls.reply import Reply
from mcp_app.execution.questions.inputs import Inputs
from mcp_app.execution.questions.request_state import inputs_of, spend
from mcp_app.execution.stored.call_record import CallRecord
from mcp_app.message_log.log import MessageLog
from mcp_app.metrics.counts import Counts
from mcp_app.observability import spans
from mcp_app.observability.call_telemetry import CallTelemetry, of_request
from mcp_app.observability.correlation import Correlation
from mcp_app.protocol.errors import InternalError, InvalidParams, McpError
from mcp_app.protocol.messages.progress import check_progress_token
from mcp_app.protocol.rate_window import RateWindow
from mcp_app.protocol.versions import is_modern
from mcp_app.sessions.client_requests import ClientRequests
from mcp_app.sessions.negotiated import Agreed, Negotiated
from mcp_app.sessions.open_sessions import Sessions
from mcp_app.sessions.session import LiveSession
from mcp_app.streams.gateway import Streams

Params = dict[str, Any]
# None means that the answer is sent on the reply when the call ends.
Result = dict[str, Any] | bytes | None


@dataclass(slots=True, eq=False)
class Services:
    """The long-lived parts of one process that the dispatcher and its handlers use."""

    settings: Settings
    streams: Streams
    sessions: Sessions
    requests: ClientRequests
    calls: RunningCalls
    background: Background
    log: MessageLog
    counts: Counts
    views: Views
    completions: RateWindow = field(default_factory=RateWindow)
    # Caches of ``initialize``: outcomes of clients' proposals, and encoded results.
    agreed: dict[bytes, Agreed] = field(default_factory=dict)
    initialize_results: dict[tuple[tuple[str, ...], str, bool], bytes] = field(default_factory=dict)

    async def change_session(self, session: LiveSession, **fields: str) -> None:
        """Change a session and its record."""
        await self.sessions.change(session, **fields)
        self.log.changed(session.id, session.stored())


@dataclass(slots=True)
class CallerContext:
    """The principal, session and catalogue of a request. Requests answered at once need nothing more.

    The transport creates the object when the request starts. Every step of the request uses this view of the
    catalogue.
    """

    services: Services
    session: Negotiated
    principal: Principal
    catalogue: CatalogueView


@dataclass(slots=True)
class RequestContext(CallerContext):
    """The context of a request that is being handled."""

    reply: Reply | ExchangeReply
    request_id: str | int
    method: str
    payload: bytes
    # The headers of the POST that name a trace, or None.
    trace_fields: Mapping[str, str] | None = None
    # The row of the idempotency key of ``tools/call``, or None.
    place: int | None = None
    # True if the limits have counted the call before its idempotency key was stored.
    counted: bool = False

    @property
    def version(self) -> str:
        """The session's negotiated revision."""
        return self.session.version

    def run(
        self,
        params: Params,
        *,
        target: str,
        work: Work,
        timeout: float | None = None,
        on_timeout: Callable[[], dict[str, Any]] | None = None,
        waits: bool = True,
    ) -> None:
        """Start a call that answers this request on the reply.

        Pass ``waits=False`` if ``work`` never waits: the answer is then on the reply at once.
        """
        meta = request_meta(params)
        inputs = self.inputs(params)
        spends = inputs is not None and inputs.nonce != ""
        seconds = timeout or self.services.settings.tool_timeout_seconds
        self.services.calls.start(
            self,
            target=target,
            meta=meta,
            progress_token=progress_token(meta) if meta else None,
            timeout=seconds,
            work=self._after_spending(inputs, work) if inputs is not None and spends else work,
            on_timeout=on_timeout or _no_answer,
            inputs=inputs,
            waits=waits or spends,
        )

    def inputs(self, params: Params) -> Inputs | None:
        """Return the request's state and answers to questions, or None before 2026-07-28.

        Raise InvalidParams for an invalid state.
        """
        if not is_modern(self.session.version):
            return None
        return inputs_of(self.method, params, self.principal.key, self.services.settings)

    def _after_spending(self, inputs: Inputs, work: Work) -> Work:
        async def spent_first(call: RunningCall, context: Context) -> dict[str, Any]:
            await spend(self.services.streams, inputs, self.services.settings)
            return await work(call, context)

        return spent_first

    def log_mark(self, mark: str, target: str) -> None:
        """Write a line of the kind ``mark`` to the message log.

        The request itself is logged with its answer.
        """
        principal, request_id = self.principal.key, str(self.request_id)
        self.services.log.single(
            self.session.record_id, principal, "in", mark, self.payload, self.method, request_id, target
        )

    def log_if_waiting(self, call: CallRecord) -> None:
        """Log that the request's background call waits for approval, or for a long time for a worker."""
        if self.services.log.enabled:
            mark = "waiting" if call.waits_for_approval else "queued"
            note = partial(self.log_mark, mark, call.tool)
            self.services.background.waiting.accepted(call, len(self.payload), note)

    def telemetry(self, target: str, meta: dict[str, Any]) -> CallTelemetry:
        """Return the telemetry of this request's call."""
        if not meta and self.trace_fields is None and spans.active is None:
            asked = (self.session.id, "", self.request_id, self.principal.key)
            return CallTelemetry(Correlation(*asked, sent=[]))
        return of_request(
            method=self.method,
            target=target,
            session=self.session.id,
            version=self.session.version,
            principal=self.principal.key,
            request_id=self.request_id,
            meta=meta,
            fields=self.trace_fields,
        )


QuickHandler = Callable[[CallerContext, Params], Result | McpError]
Handler = Callable[[RequestContext, Params], Result | Awaitable[Result]]


def name_and_arguments(method: str, params: Params) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of a request. Raise InvalidParams."""
    name = params.get("name")
    if type(name) is not str:
        raise InvalidParams(f"{method} needs the member 'name', a string.")
    arguments = params.get("arguments", {})
    if type(arguments) is not dict:
        raise InvalidParams("The member 'arguments' must be an object.")
    return name, arguments


def request_meta(params: Params) -> dict[str, Any]:
    """Return the request's ``_meta`` unchanged (META-08), or {}."""
    meta = params.get("_meta")
    return meta if type(meta) is dict else {}


def progress_token(meta: dict[str, Any]) -> str | int | None:
    """Return the request's progress token. Raise InvalidParams for a wrong type (META-11)."""
    return check_progress_token(meta["progressToken"]) if "progressToken" in meta else None


def _no_answer() -> dict[str, Any]:
    raise InternalError("The request took too long and was stopped.")
