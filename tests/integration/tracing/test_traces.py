"""Trace propagation to tools, threads, workers and client requests, with and without OpenTelemetry."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.integration.tracing.conftest import PARENT, SPAN, TRACE, converse, known
from tests.servers.live import LiveServer, eventually

META = {"traceparent": PARENT, "tracestate": "vendor=1", "baggage": "user=ada"}
LOOKS = ["look", "look_in_thread", "look_in_worker"]


@pytest.mark.requirement("META-09")
@pytest.mark.parametrize("tool", LOOKS)
def test_tool_continues_the_trace_of_its_caller(tool: str, client: Mcp) -> None:
    found = known(client, tool, META)
    assert found["traceparent"] == PARENT
    assert found["headers"] == {"traceparent": PARENT, "tracestate": "vendor=1"}
    assert found["meta"] == META


@pytest.mark.requirement("META-10")
@pytest.mark.parametrize("tool", LOOKS)
def test_header_trace_is_used_only_without_a_meta_trace(tool: str, client: Mcp) -> None:
    other = PARENT.replace(SPAN, "1" * 16)
    assert known(client, tool, headers={"traceparent": other})["traceparent"] == other
    assert known(client, tool, META, headers={"traceparent": other})["traceparent"] == PARENT


@pytest.mark.requirement("META-09")
@pytest.mark.parametrize("tool", LOOKS)
def test_malformed_trace_is_ignored(tool: str, client: Mcp) -> None:
    for wrong in ({"traceparent": "00-x"}, {"traceparent": 7, "baggage": ["x"]}, {"tracestate": "a=1"}):
        found = known(client, tool, wrong, headers={"traceparent": "nonsense"})
        assert (found["traceparent"], found["headers"]) == ("", {})


@pytest.mark.requirement("META-09")
def test_client_request_has_the_trace_without_its_baggage(client: Mcp) -> None:
    question = converse(client, "ask", META)[0]
    assert question["params"]["_meta"] == {"traceparent": PARENT, "tracestate": "vendor=1"}
    assert "_meta" not in converse(client, "ask")[0]["params"]


def spans_of(server: LiveServer) -> list[dict[str, Any]]:
    """Return the spans printed by console exporters between the log lines; in a worker, Celery logs them."""
    printed = re.sub(r"^.* celery\.redirected ", "\n", server.logs(), flags=re.MULTILINE)
    text, found, at = printed.replace("\\u000a", "\n"), [], 0
    decoder = json.JSONDecoder()
    while (at := text.find('{\n    "name"', at)) >= 0:
        try:
            span, at = decoder.raw_decode(text, at)
        except ValueError:
            break
        found.append(span)
    return found


@pytest.mark.requirement("META-09")
def test_worker_span_is_a_child_of_the_server_span(traced: LiveServer, traced_client: Mcp) -> None:
    found = known(traced_client, "look_in_worker", META)

    def ours() -> dict[str, dict[str, Any]]:
        return {
            span["name"]: span for span in spans_of(traced) if span["context"]["trace_id"] == f"0x{TRACE}"
        }

    eventually(lambda: len(ours()) == 2, what="both spans")
    serving, running = ours()["tools/call look_in_worker"], ours()["execute_tool look_in_worker"]
    assert serving["parent_id"] == f"0x{SPAN}"
    assert running["parent_id"] == serving["context"]["span_id"]
    assert found["traceparent"].split("-")[1:3] == [TRACE, running["context"]["span_id"].removeprefix("0x")]
    assert serving["kind"] == "SpanKind.SERVER"
    assert running["attributes"]["mcp_app.call.attempt"] == 1


def test_quick_call_has_a_span_without_arguments(traced: LiveServer, traced_client: Mcp) -> None:
    (answer,) = converse(
        traced_client, "never_waits", {"traceparent": PARENT.replace("4bf9", "5bf9")}, text="hush"
    )
    assert answer["result"]["content"][0]["text"] == "hush"
    eventually(lambda: any(span["name"] == "tools/call never_waits" for span in spans_of(traced)))
    assert "hush" not in traced.logs()
