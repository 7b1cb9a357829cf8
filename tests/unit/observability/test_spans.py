"""Spans of calls (META-09, META-10): parented, linked, bounded; none without OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from mcp_app.observability import spans
from mcp_app.observability.call_telemetry import CallTelemetry, of_attempt, of_request
from tests.unit.observability.tracing import (
    PARENT,
    SPAN,
    TRACE,
    Recorded,
    exporter,
    id_of,
    parent_of,
    recorded,
    trace_of,
)

__all__ = ["exporter", "recorded"]

OTHER = PARENT.replace(SPAN, "1111111111111111")


def request(**changed: Any) -> CallTelemetry:
    given: dict[str, Any] = {
        "method": "tools/call",
        "target": "add",
        "session": "a-session-with-a-long-name",
        "version": "2025-11-25",
        "principal": "user:1/key:1",
        "request_id": 7,
        "meta": {"traceparent": PARENT, "tracestate": "a=1"},
        "fields": None,
    }
    return of_request(**given | changed)


def attempt(**changed: Any) -> CallTelemetry:
    given: dict[str, Any] = {
        "call": "c",
        "attempt": 2,
        "tool": "count",
        "session": "s",
        "principal": "p",
        "request_id": "r",
        "meta": {},
    }
    return of_attempt(**given | changed)


def test_call_span_has_client_parent_and_conventional_attributes(recorded: Recorded) -> None:
    request().end("ok")
    span = recorded.one()
    assert (span.name, span.kind, span.status.status_code) == (
        "tools/call add",
        SpanKind.SERVER,
        StatusCode.UNSET,
    )
    assert (trace_of(span), parent_of(span)) == (TRACE, SPAN)
    assert span.context.trace_state.to_header() == "a=1"
    assert dict(span.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.session.id": "a-session-wi",
        "mcp.protocol.version": "2025-11-25",
        "jsonrpc.request.id": "7",
        "gen_ai.tool.name": "add",
        "gen_ai.operation.name": "execute_tool",
        "enduser.id": "user:1/key:1",
    }


def test_worker_attempt_span_is_child_of_accepting_span(recorded: Recorded) -> None:
    with request() as accepted:
        meta = accepted.context.meta if accepted.context else {}
    attempt(meta=meta).end("ok")
    first, second = recorded.all()
    assert (trace_of(second), parent_of(second)) == (TRACE, id_of(first))
    assert second.name == "execute_tool count"
    assert (second.attributes or {})["mcp_app.call.attempt"] == 2


def test_connection_trace_is_link_or_parent_without_message_trace(recorded: Recorded) -> None:
    fields = {"traceparent": OTHER, "tracestate": "", "baggage": ""}
    request(fields=fields).end("ok")
    request(fields=fields, meta={}).end("ok")
    beside, alone = recorded.all()
    assert parent_of(beside) == SPAN
    assert [f"{link.context.span_id:016x}" for link in beside.links] == ["1" * 16]
    assert (parent_of(alone), list(alone.links)) == ("1" * 16, [])


def test_call_without_trace_starts_a_root_span(recorded: Recorded) -> None:
    with trace.get_tracer("tests").start_as_current_span("something of ours"):
        telemetry = request(meta={})
        telemetry.end("ok")
    assert recorded.all()[0].parent is None
    assert telemetry.context is not None
    assert telemetry.correlation.trace_id == trace_of(recorded.all()[0])


@pytest.mark.parametrize(
    ("outcome", "answer", "status", "attributes"),
    [
        ("ok", b"{}", StatusCode.UNSET, {}),
        ("tool_error", b"{}", StatusCode.ERROR, {"error.type": "tool_error"}),
        (
            "error",
            b'{"error":{"code":-32603,"message":"secret"}}',
            StatusCode.ERROR,
            {"error.type": "-32603", "rpc.response.status_code": "-32603"},
        ),
        (
            "cancelled",
            b'{"error":{"code":-32800,"message":"x"}}',
            StatusCode.UNSET,
            {"error.type": "cancelled", "rpc.response.status_code": "-32800"},
        ),
    ],
)
def test_span_records_outcome_without_error_text(
    recorded: Recorded, outcome: str, answer: bytes, status: StatusCode, attributes: dict[str, str]
) -> None:
    request().end(outcome, answer)
    span = recorded.one()
    assert (span.status.status_code, span.status.description) == (status, None)
    told = {name: (span.attributes or {}).get(name) for name in ("error.type", "rpc.response.status_code")}
    assert {name: value for name, value in told.items() if value} == attributes


def test_client_chosen_attributes_are_bounded_and_uri_is_not_in_name(recorded: Recorded) -> None:
    request(
        method="resources/read", target="x://" + "y" * 5000, request_id="z" * 5000, principal="p" * 5000
    ).end("ok")
    span = recorded.one()
    assert span.name == "resources/read"
    assert max(len(str(value)) for value in (span.attributes or {}).values()) <= spans.MAX_TEXT


def test_span_of_tool_code_is_child_of_call_span(recorded: Recorded) -> None:
    with trace.use_span(trace.INVALID_SPAN):
        telemetry = request()
        telemetry.enter()
        trace.get_tracer("tests").start_span("of the tool").end()
        telemetry.end("ok")
    tool, call = recorded.all()
    assert parent_of(tool) == id_of(call)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "x"}, []),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        ({"OTEL_TRACES_EXPORTER": "console, otlp"}, ["console", "otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, []),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, []),
    ],
)
def test_environment_selects_exporters(environment: dict[str, str], expected: list[str]) -> None:
    assert spans._exporters(environment) == expected


def started(code: str, **environment: str) -> str:
    """Return the output of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": "/usr/bin", **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return done.stdout + done.stderr


IMPORTED = "import sys; print(any(name.startswith('opentelemetry') for name in sys.modules))"
START = "from mcp_app.observability import spans, call_telemetry; spans.start()\n"
TRAIL = (
    "call_telemetry.of_request(method='tools/call', target='add', session='s', version='v', principal='p', "
    "request_id=1, meta={'traceparent': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'}, "
    "fields=None).end('ok')\n"
)


@pytest.mark.process
def test_opentelemetry_is_not_imported_unless_configured() -> None:
    assert started(START + TRAIL + IMPORTED).strip() == "False"


@pytest.mark.process
def test_provider_is_created_from_environment() -> None:
    printed = started(START + TRAIL, OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    assert '"name": "tools/call add"' in printed
    assert '"service.name": "shop"' in printed
    assert '"parent_id": "0x00f067aa0ba902b7"' in printed


@pytest.mark.process
@pytest.mark.parametrize("exporter_name", ["no-such", "otlp"])
def test_missing_exporter_is_reported_without_failure(exporter_name: str) -> None:
    code = "import importlib.metadata as m; m.entry_points = lambda **_: []\n" + START + TRAIL
    printed = started(code, OTEL_TRACES_EXPORTER=exporter_name)
    assert "requirements-otel.txt" in printed


@pytest.mark.process
def test_missing_opentelemetry_is_reported_without_failure() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None\n" + START + TRAIL
    printed = started(code, OTEL_TRACES_EXPORTER="otlp")
    assert "OpenTelemetry is not installed" in printed
