"""A web process and a worker that log JSON; once without and once with OpenTelemetry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import EventStream, Mcp
from tests.servers.live import LiveServer

SETTINGS = "tests.integration.tracing.settings"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
# Exports each span as soon as it ends, so that none is lost with the process.
CONSOLE = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "100"}


def converse(
    client: Mcp,
    tool: str,
    meta: dict[str, Any] | None = None,
    /,
    headers: dict[str, str] | None = None,
    **given: Any,
) -> list[dict[str, Any]]:
    """Return every message of a call, the response last; elicitations are declined."""
    message = client.request_message("tools/call", {"name": tool, "arguments": given, "_meta": meta or {}})
    found = client.client.open_stream(
        "POST", client.path, client.headers(**headers or {}), json.dumps(message).encode()
    )
    if not isinstance(found, EventStream):
        return [found.json()]
    said: list[dict[str, Any]] = []
    with found:
        while not said or "id" not in said[-1] or "method" in said[-1]:
            said.append(found.message(20))
            if said[-1].get("method") == "elicitation/create":
                beside = client.via(client.client.port)
                with closing(beside):
                    beside.respond(said[-1]["id"], {"action": "decline"})
    return said


def known(client: Mcp, tool: str, meta: dict[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    """Return the trace context that a tool returned."""
    found: dict[str, Any] = converse(client, tool, meta, **more)[-1]["result"]["structuredContent"]
    return found


def records(server: LiveServer) -> list[dict[str, Any]]:
    """Return every log record; each line must be a JSON object, except two that Celery prints without
    logging.
    """
    lines = [line for line in server.logs().splitlines() if line and not line.startswith("worker: ")]
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="package")
def server() -> Iterator[LiveServer]:
    with LiveServer(1, settings=SETTINGS, worker=True, concurrency=1, env={"LOG_FORMAT": "json"}) as running:
        yield running


@pytest.fixture(scope="package")
def traced() -> Iterator[LiveServer]:
    with LiveServer(1, settings=SETTINGS, worker=True, concurrency=1, env=CONSOLE) as running:
        yield running


def opened(server: LiveServer) -> Iterator[Mcp]:
    client = server.mcp(0)
    client.initialize("2025-11-25", {"elicitation": {"form": {}}})
    with closing(client):
        yield client


@pytest.fixture
def client(server: LiveServer) -> Iterator[Mcp]:
    yield from opened(server)


@pytest.fixture
def traced_client(traced: LiveServer) -> Iterator[Mcp]:
    yield from opened(traced)
