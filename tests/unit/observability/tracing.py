"""In-memory OpenTelemetry: the spans created by a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from mcp_app.observability import spans

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Recorded:
    """Spans that ended since the test started."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def one(self) -> ReadableSpan:
        (span,) = self.all()
        return span


@pytest.fixture(scope="session")
def exporter() -> InMemorySpanExporter:
    """Install the only provider that a process may have."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def recorded(exporter: InMemorySpanExporter) -> Iterator[Recorded]:
    """Record spans during the test."""
    exporter.clear()
    spans.start()
    yield Recorded(exporter)
    spans.stop()


def parent_of(span: ReadableSpan) -> str:
    """Return the id of the parent span."""
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def id_of(span: ReadableSpan) -> str:
    return f"{span.context.span_id:016x}"


def trace_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"
