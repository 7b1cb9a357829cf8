"""OpenTelemetry spans. No other module uses the library, and this one uses it only if spans are enabled.

Names and attributes follow OpenTelemetry's semantic conventions for MCP and for generative AI. They never
contain arguments, answers or the texts of exceptions.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

import orjson

from mcp_app.protocol.messages.trace_context import TraceContext

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
INSTALL: Final = "pip install -r requirements-otel.txt"
MAX_TEXT: Final = 200
# The attribute for the target of each method. A URI is text from the client, so it is not in the span's
# name.
TARGETS: Final = {
    "tools/call": "gen_ai.tool.name",
    "prompts/get": "gen_ai.prompt.name",
    "resources/read": "mcp.resource.uri",
}

log = logging.getLogger("mcp.spans")
# The factory of spans if OpenTelemetry is active in this process, else None.
active: Spans | None = None


def start() -> None:
    """Enable spans if there is a provider, or if environment variables configure one.

    Call it once per process. Nothing is imported if the library is not installed or spans are not
    requested.
    """
    global active  # noqa: PLW0603 - a fact about the process
    wanted = _exporters(os.environ)
    if not wanted and "opentelemetry.trace" not in sys.modules:
        return
    try:
        from opentelemetry import trace
    except ImportError:
        log.warning("OTEL_* enables traces, but OpenTelemetry is not installed: %s", INSTALL)
        return
    is_missing = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    if is_missing and not (wanted and _configure(wanted)):
        return
    active = Spans(trace.get_tracer("mcp_app"))


def stop() -> None:
    """Stop creating spans. The provider still exports spans that have ended."""
    global active  # noqa: PLW0603 - as above
    active = None


def _exporters(environment: Mapping[str, str]) -> list[str]:
    """Return the entry point names of the exporters that environment variables request."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    default = "otlp" if any(environment.get(name) for name in ENDPOINTS) else ""
    names = environment.get("OTEL_TRACES_EXPORTER", "") or default
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), "")
    otlp = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
    return [otlp if name == "otlp" else name for name in found]


def _configure(exporters: list[str]) -> bool:
    """Install a provider for these exporters. OTEL_* variables control sampling, batches and the resource.

    Return False if a library is missing.
    """
    from opentelemetry import trace

    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        made = [_exporter(name) for name in exporters]
    except (ImportError, LookupError) as missing:
        log.warning("OTEL_* enables traces, but they cannot be exported (%s): %s", missing, INSTALL)
        return False
    own_name = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "django-mcp"}
    provider = TracerProvider(resource=Resource(own_name).merge(Resource.create()) if own_name else None)
    for exporter in made:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return True


def _exporter(name: str) -> Any:
    for point in entry_points(group="opentelemetry_traces_exporter", name=name):
        return point.load()()
    raise LookupError(f"no exporter {name!r}")


class Spans:
    """A factory of spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def serve(
        self,
        *,
        method: str,
        target: str,
        attributes: Mapping[str, str],
        parent: TraceContext | None,
        linked: TraceContext | None = None,
    ) -> Span:
        """Start a span for a client's request below the client's span.

        ``linked`` is added as a link (META-10).
        """
        from opentelemetry.trace import Link, SpanKind, get_current_span

        name = method if method == "resources/read" else f"{method} {target}"[:MAX_TEXT]
        links = [Link(get_current_span(_context(linked)).get_span_context())] if linked is not None else None
        return self._tracer.start_span(
            name,
            context=_context(parent),
            kind=SpanKind.SERVER,
            attributes={**attributes, "mcp.method.name": method, **_target(method, target)},
            links=links,
        )

    def attempt(self, *, tool: str, attributes: Mapping[str, Any], parent: TraceContext | None) -> Span:
        """Start a span for one attempt of a background call in a worker."""
        return self._tracer.start_span(
            f"execute_tool {tool}"[:MAX_TEXT],
            context=_context(parent),
            attributes={**attributes, **_target("tools/call", tool)},
        )


def end(span: Span, outcome: str, answer: bytes) -> None:
    """End the span of a request. ``answer`` is used only to find an error code."""
    from opentelemetry.trace import StatusCode

    if outcome == "tool_error":
        span.set_attribute("error.type", "tool_error")
        span.set_status(StatusCode.ERROR)
    elif outcome not in ("ok", "asked"):
        code = _code(answer)
        span.set_attribute("error.type", "cancelled" if outcome == "cancelled" else code or "_OTHER")
        if code:
            span.set_attribute("rpc.response.status_code", code)
        # A call that its client cancelled has not failed.
        if outcome != "cancelled":
            span.set_status(StatusCode.ERROR)
    span.end()


def _code(answer: bytes) -> str:
    """Return the code of an error response, or "" for any other answer."""
    message = orjson.loads(answer) if answer else {}
    error = message.get("error")
    return str(error["code"]) if isinstance(error, dict) else ""


def context_of(span: Span, came: TraceContext | None) -> TraceContext | None:
    """Return the trace context for work below ``span``: the same trace, with ``span`` as the parent."""
    found = span.get_span_context()
    if not found.is_valid:
        return came
    baggage = came.baggage if came is not None else ""
    states = found.trace_state.to_header()
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", found.trace_flags, states, baggage)


def enter(span: Span) -> None:
    """Make ``span`` the parent of further spans in this task or thread. Baggage is not passed on."""
    from opentelemetry import context
    from opentelemetry.trace import set_span_in_context

    context.attach(set_span_in_context(span))


def _context(parent: TraceContext | None) -> Context:
    """Return a context made only from the client's headers, so that no span of this process is the parent."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = parent.headers if parent is not None else {}
    return TraceContextTextMapPropagator().extract(carrier, Context())


def _target(method: str, target: str) -> dict[str, str]:
    found = {TARGETS[method]: target[:MAX_TEXT]} if method in TARGETS else {}
    return found | {"gen_ai.operation.name": "execute_tool"} if method == "tools/call" else found
