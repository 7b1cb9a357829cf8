"""Graceful stop: a process finishes and answers a call that is held at its connection."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests.clients.raw_http import Mcp
from tests.clients.raw_modern import Modern
from tests.clients.raw_wire import PATIENCE, Answer, Wire, read_body, read_head, request_bytes
from tests.servers.live import LiveServer, eventually


@pytest.fixture
def patient() -> Iterator[LiveServer]:
    """Start one web process with a grace period that no call exceeds."""
    with LiveServer(1, settings="tests.integration.http.patient_settings") as server:
        yield server
        assert not server.trouble()


def request_to(server: LiveServer, *, modern: bool) -> bytes:
    """Return a request for a tool that runs for a moment and records its start."""
    params = {"name": "hold", "arguments": {"name": "held", "seconds": 0.5}}
    authority = f"127.0.0.1:{server.ports[0]}"
    if modern:
        return request_bytes(
            "POST", "/mcp", authority, *Modern(server.ports[0])._request("tools/call", params)
        )
    client = Mcp.at(server.ports[0])
    client.initialize("2025-11-25", {})
    client.close()
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return request_bytes("POST", "/mcp", authority, client.headers(), json.dumps(message).encode())


def answer_after_stop(server: LiveServer, data: bytes) -> Answer:
    """Send a call, stop the process after the call has started, and return the response."""
    process, ledger = server.processes[0], server.folder / "data" / "ledger"
    wire = Wire("127.0.0.1", process.port, PATIENCE)
    wire.send(data)
    eventually(lambda: ledger.exists() and "start held\n" in ledger.read_text("utf-8"), 10, "it starts")
    assert process.child is not None
    process.child.send_signal(signal.SIGTERM)
    status, headers = read_head(wire, None)
    answer = Answer(status, headers, read_body(wire, "POST", status, headers, None))
    wire.close()
    assert process.stop() in (0, -signal.SIGTERM)
    return answer


@pytest.mark.parametrize("modern", [False, True], ids=["2025-11-25", "2026-07-28"])
def test_call_finishing_within_the_grace_period_is_answered(patient: LiveServer, *, modern: bool) -> None:
    answer = answer_after_stop(patient, request_to(patient, modern=modern))
    assert answer.status == 200
    assert answer.json()["result"]["content"] == [{"type": "text", "text": "held"}]
