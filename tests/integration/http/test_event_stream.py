"""Streams on the wire: framing, keep-alives, no buffering, disconnected readers."""

from __future__ import annotations

import json
import time

import pytest

from mcp_app.conf import Settings
from tests.clients.raw_http import EventStream, Mcp
from tests.integration.http.conftest import OpenSession
from tests.servers.live import LiveServer, eventually

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")


def fields_of(raw: bytes) -> list[list[tuple[str, str]]]:
    """Parse the events of a stream into lists of fields by the standard, independently of the project's
    parser.
    """
    events = []
    for block in raw.decode("utf-8").split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            events.append([(name, value) for name, _, value in (line.partition(": ") for line in lines)])
    return events


@pytest.mark.requirement("T-SSE-01", "T-SSE-02", "RPC-01", "GEN-03")
@pytest.mark.parametrize("version", LEGACY)
def test_every_event_holds_one_message_in_one_data_line(open_session: OpenSession, version: str) -> None:
    client = open_session(version)
    with client.open_call("tools/call", {"name": "steps", "arguments": {"count": 3}}) as stream:
        stream.messages()
    events = fields_of(stream.raw)
    assert stream.raw.endswith(b"\n\n")
    assert all([name for name, _ in event].count("data") <= 1 for event in events)
    assert {name for event in events for name, _ in event} <= {"id", "data", "event", "retry"}
    assert {value for event in events for name, value in event if name == "event"} <= {"message"}
    messages = [json.loads(value) for event in events for name, value in event if name == "data" and value]
    assert [message["jsonrpc"] for message in messages] == ["2.0"] * 4
    assert messages[0]["params"]["data"] == "1 Größe 😀"


@pytest.mark.requirement("T-SSE-04")
def test_silent_stream_sends_keep_alive_comments(client: Mcp) -> None:
    assert Settings().keep_alive_seconds == 15
    with client.get_stream() as standalone, client.open_call("tools/call", {"name": "welcome"}) as call:
        call.message()
        # This server sends keep-alives every second.
        eventually(
            lambda: comments(standalone) >= 2 and comments(call) >= 2, 6, "two comments on each stream"
        )


def comments(stream: EventStream) -> int:
    stream.quiet(0.05)
    return sum(line.startswith(b":") for line in stream.raw.split(b"\n"))


@pytest.mark.requirement("T-SSE-06")
def test_events_are_sent_unbuffered_while_the_tool_runs(client: Mcp) -> None:
    call = {"name": "steps", "arguments": {"count": 2, "delay_seconds": 20}}
    body = json.dumps(client.request_message("tools/call", call)).encode()
    headers = client.headers(Accept_Encoding="gzip, deflate, br")
    started = time.monotonic()
    stream = client.client.open_stream("POST", "/mcp", headers, body)
    assert isinstance(stream, EventStream)
    with stream:
        assert stream.message()["params"]["data"].startswith("1 ")
        assert time.monotonic() - started < 20
        assert "content-encoding" not in stream.headers
    client.notify("notifications/cancelled", {"requestId": client.next_id})


@pytest.mark.requirement("T-SSE-07", "T-GET-06")
def test_reader_leaving_an_idle_stream_is_detected_within_a_second(client: Mcp) -> None:
    first = client.get_stream()
    first.next()
    assert not isinstance(client.try_get_stream(), EventStream)
    first.cut()

    def opened() -> bool:
        found = client.try_get_stream()
        if isinstance(found, EventStream):
            found.cut()
            return True
        return False

    eventually(opened, 1, "the place of the reader that left is free")


@pytest.mark.requirement("T-SSE-07")
def test_abandoned_streams_release_their_descriptors(live: LiveServer, client: Mcp) -> None:
    def open_descriptors() -> int:
        from pathlib import Path

        return len(list(Path(f"/proc/{live.processes[0].pid}/fd").iterdir()))

    before = open_descriptors()
    streams = [client.open_call("tools/call", {"name": "welcome"}) for _ in range(20)]
    assert open_descriptors() >= before + 20
    for stream in streams:
        stream.cut()
    eventually(lambda: open_descriptors() <= before + 1, 2, "the descriptors are given back")
