"""The telemetry of a call: the ids in its log lines, its trace context and its span."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mcp_app.observability import spans
from mcp_app.observability.correlation import CURRENT, Correlation
from mcp_app.observability.logs import ID_CHARACTERS, SESSION_CHARACTERS
from mcp_app.protocol.messages.trace_context import TraceContext, read

if TYPE_CHECKING:
    from opentelemetry.trace import Span


class CallTelemetry:
    """The telemetry of a request or attempt. ``context`` is its trace context, or None without a trace.

    Use it as a context manager around work that ends in the same scope. Use ``enter`` and ``end`` for
    calls, which can end in several places.
    """

    __slots__ = ("_span", "_token", "context", "correlation")

    def __init__(
        self, correlation: Correlation, context: TraceContext | None = None, span: Span | None = None
    ) -> None:
        self.correlation = correlation if context is None else correlation._replace(trace_id=context.trace_id)
        self.context = context
        self._span = span
        self._token: Token[Correlation | None] | None = None

    def enter(self) -> None:
        """Set correlation and span for the current task, and for threads and tasks that this task starts."""
        self._token = CURRENT.set(self.correlation)
        if self._span is not None:
            spans.enter(self._span)

    def end(self, outcome: str, answer: bytes = b"") -> None:
        """End the span. ``outcome`` is one of the outcomes in the message log."""
        if self._span is not None:
            spans.end(self._span, outcome, answer)

    def __enter__(self) -> Self:
        self._token = CURRENT.set(self.correlation)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            CURRENT.reset(self._token)
        self.end("ok" if error is None else "error")


def of_request(
    *,
    method: str,
    target: str,
    session: str,
    version: str,
    principal: str,
    request_id: str | int,
    meta: Mapping[str, Any],
    fields: Mapping[str, str] | None,
) -> CallTelemetry:
    """Return the telemetry of a client's request. ``fields`` are the trace headers of its POST.

    The parent is the span that ``meta`` refers to. In that case the headers describe the connection, so
    their span is only linked (META-10).
    """
    named = read(meta) if "traceparent" in meta else None
    beside = read(fields) if fields is not None else None
    context = named or beside
    span = None
    if (making := spans.active) is not None:
        span = making.serve(
            method=method,
            target=target,
            attributes={**_attributes(session, principal, request_id), "mcp.protocol.version": version},
            parent=context,
            linked=beside if named is not None else None,
        )
        context = spans.context_of(span, context)
    return CallTelemetry(Correlation(session, "", request_id, principal, sent=[]), context, span)


def of_attempt(
    *,
    call: str,
    attempt: int,
    tool: str,
    session: str,
    principal: str,
    request_id: str | int,
    meta: Mapping[str, Any],
) -> CallTelemetry:
    """Return the telemetry of one attempt of a background call. ``meta`` was stored with the call."""
    context = read(meta) if "traceparent" in meta else None
    span = None
    if (making := spans.active) is not None:
        attributes = {**_attributes(session, principal, request_id), "mcp_app.call.id": call}
        span = making.attempt(
            tool=tool, attributes={**attributes, "mcp_app.call.attempt": attempt}, parent=context
        )
        context = spans.context_of(span, context)
    return CallTelemetry(Correlation(session, call, request_id, principal, sent=[]), context, span)


def _attributes(session: str, principal: str, request_id: str | int) -> dict[str, str]:
    return {
        "mcp.session.id": session[:SESSION_CHARACTERS],
        "jsonrpc.request.id": str(request_id)[:ID_CHARACTERS],
        "enduser.id": principal[:ID_CHARACTERS],
    }
