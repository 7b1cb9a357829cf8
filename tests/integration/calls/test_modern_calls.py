"""2026-07-28 with real processes: background calls respond on their request, and end with its connection."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.clients.raw_http import EventStream, RawClient
from tests.clients.raw_wire import Wire, request_bytes
from tests.integration.calls.conftest import Installation
from tests.servers.live import eventually

pytestmark = pytest.mark.process
V = "2026-07-28"
# The machine is shared, so timing assertions have some slack.
AIR_SECONDS = 0.5


def call(tool: str, **arguments: Any) -> tuple[dict[str, str], bytes]:
    """Return headers and body of a modern call; its progress token is its nonce, its id always 1."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": V,
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": arguments["nonce"],
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": V,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return headers, json.dumps(message).encode()


def stream_of(live: Installation, tool: str, process: int = 0, **arguments: Any) -> EventStream:
    """Open the response to a call that sends progress."""
    client = RawClient("127.0.0.1", live.ports[process])
    found = client.open_stream("POST", "/mcp", *call(tool, **arguments))
    assert isinstance(found, EventStream), found
    return found


def silent_call(live: Installation, **arguments: Any) -> Wire:
    """Open the connection of a call that sends nothing before its response."""
    wire = Wire("127.0.0.1", live.ports[0])
    headers, body = call("doze", seconds=3, **arguments)
    wire.send(request_bytes("POST", "/mcp", "127.0.0.1", headers, body))
    return wire


@pytest.mark.requirement("T-MOD-02", "T-MOD-04", "META-05", "T-MOD-13", "GEN-04")
def test_background_call_streams_on_its_own_request(live: Installation, nonce: str) -> None:
    """Two clients at two processes use the same id at the same time."""
    with (
        stream_of(live, "work", nonce=nonce, steps=4) as first,
        stream_of(live, "work", 1, nonce=f"{nonce}-b", steps=4) as second,
    ):
        for stream, own in ((first, nonce), (second, f"{nonce}-b")):
            *told, answer = stream.messages(30)
            assert answer["result"]["resultType"] == "complete"
            assert answer["result"]["content"][0]["text"].startswith(own)
            assert {message["method"] for message in told} == {"notifications/progress"}
            assert {message["params"]["progressToken"] for message in told} == {own}
            values = [message["params"]["progress"] for message in told]
            assert values == sorted(set(values))


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("work", {"steps": 600}), ("work_in_thread", {"steps": 600})],
)
@pytest.mark.requirement("T-MOD-05", "CAN-05")
def test_closing_the_connection_stops_the_work_in_the_worker(
    live: Installation, nonce: str, tool: str, arguments: dict[str, Any]
) -> None:
    stream = stream_of(live, tool, nonce=nonce, **arguments)
    live.started(nonce, "alive")
    assert stream.message(15)["method"] == "notifications/progress"
    left = time.monotonic()
    stream.cut()
    eventually(lambda: time.monotonic() > left + 2 + AIR_SECONDS or live.lines(nonce, "stopped"), 10)
    assert live.still_for(nonce, 0.5)
    assert live.lines(nonce)[-1].at - left < 2 + AIR_SECONDS


@pytest.mark.requirement("T-MOD-05")
def test_call_of_a_disconnected_client_never_starts(live: Installation, nonce: str) -> None:
    busy = [silent_call(live, nonce=f"{nonce}-{number}") for number in range(2)]
    for number in range(2):
        live.started(f"{nonce}-{number}")
    waiting = silent_call(live, nonce=nonce)
    assert live.still_for(nonce, 1.0)
    waiting.close()
    with stream_of(live, "work", nonce=f"{nonce}-after", steps=2) as after:
        assert "result" in after.messages(30)[-1]
    for wire in busy:
        wire.close()
    assert live.lines(nonce) == []
