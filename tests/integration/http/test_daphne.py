"""The same ASGI application on Daphne, beside uvicorn processes of the same installation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.clients.raw_http import Answer, Mcp, RawClient, is_stream
from tests.integration.http.conftest import CAPABILITIES
from tests.integration.http.other_process import OtherProcess
from tests.process.installation import free_port
from tests.servers.live import ROOT, LiveServer, eventually

LEGACY = ("2025-03-26", "2025-06-18", "2025-11-25")


def answers(port: int) -> bool:
    with suppress(OSError), RawClient("127.0.0.1", port, patience=5) as raw:
        return raw.request("GET", "/healthz").status == 200
    return False


@pytest.fixture(scope="module")
def daphne(live: LiveServer) -> Iterator[int]:
    """Return the port of a Daphne process that shares the live installation's database and Redis."""
    port = free_port()
    command = str(Path(sys.executable).with_name("daphne"))
    with (live.folder / "daphne.log").open("wb") as log:
        server = subprocess.Popen(
            [command, "-b", "127.0.0.1", "-p", str(port), "mcpsite.asgi:application"],
            cwd=ROOT, env=live.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        eventually(lambda: answers(port), 20, "Daphne answers")
        yield port
    finally:
        server.terminate()
        server.wait(15)
    assert "Traceback" not in (live.folder / "daphne.log").read_text(errors="replace")


@pytest.fixture
def client(daphne: int) -> Iterator[Mcp]:
    with closing(Mcp.at(daphne)) as client:
        client.initialize("2025-11-25", CAPABILITIES)
        yield client


def test_metrics_are_served_before_any_other_request(daphne: int) -> None:
    with RawClient("127.0.0.1", daphne) as raw:
        answer = raw.request("GET", "/metrics")
    assert answer.status == 200
    assert b"\nmcp_processes{" in answer.body


@pytest.mark.requirement("T-POST-01", "LIFE-02")
@pytest.mark.parametrize("version", LEGACY)
def test_session_lifecycle_of_each_revision(daphne: int, version: str) -> None:
    with closing(Mcp.at(daphne)) as client:
        assert client.initialize(version)["protocolVersion"] == version
        assert client.call("ping")["result"] == {}
        assert client.call("tools/list")["result"]["tools"]
        assert client.tool("test_simple_text")["result"]["content"]
        assert client.tool("steps", count=3)["result"]["content"][0]["text"] == "done"
        assert len(client.received) == 3
        assert client.delete().status == 200
        assert client.post(client.request_message("ping")).status == 404


@pytest.mark.requirement("T-POST-02", "T-POST-04", "T-POST-05", "T-POST-11", "T-POST-12", "SEC-01", "SEC-02")
@pytest.mark.parametrize(
    ("headers", "body", "statuses"),
    [
        ({}, b"{", (400,)),
        ({}, b"[]", (400,)),
        ({}, b'{"jsonrpc":"2.0"}', (400,)),
        ({"Accept": "text/html"}, b"{}", (406,)),
        ({"Content-Type": "text/plain"}, b"{}", (415,)),
        ({"Content-Encoding": "gzip"}, b"{}", (415,)),
        ({"Origin": "http://evil.example"}, b"{}", (403,)),
        ({"Host": "evil.example"}, b"{}", (400, 421)),
        ({"Mcp-Session-Id": "A" * 32}, b'{"jsonrpc":"2.0","id":1,"method":"ping"}', (404,)),
        ({}, b" " * (4 * 1024 * 1024 + 1), (413,)),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_requests_are_refused_with_the_same_status(
    client: Mcp, headers: dict[str, str], body: bytes, statuses: tuple[int]
) -> None:
    answer = client.client.request("POST", "/mcp", {**client.headers(), **headers}, body)
    assert answer.status in statuses
    assert answer.json()["error"]["code"] < 0
    assert client.call("ping")["result"] == {}


@pytest.mark.requirement("T-SSE-06", "T-POLL-01")
def test_events_are_delivered_while_the_tool_runs(client: Mcp) -> None:
    call = {"name": "steps", "arguments": {"count": 3, "delay_seconds": 0.4}}
    with client.open_call("tools/call", call) as stream:
        assert stream.next(1) is not None
        assert stream.message(1)["params"]["data"].startswith("1 ")
        assert stream.messages()[-1]["result"]


@pytest.mark.requirement("T-RES-03", "T-RES-06", "SES-11")
@pytest.mark.parametrize("begun_at_daphne", [True, False])
def test_stream_is_resumed_across_servers(live: LiveServer, client: Mcp, begun_at_daphne: bool) -> None:
    at_uvicorn = client.via(live.ports[0])
    first, second = (client, at_uvicorn) if begun_at_daphne else (at_uvicorn, client)
    call = {"name": "steps", "arguments": {"count": 6, "delay_seconds": 0.05}}
    with first.open_call("tools/call", call) as stream:
        found = [stream.message()["params"]["data"] for _ in range(2)]
        stream.cut()
    with second.get_stream(stream.last_event_id) as resumed:
        messages = resumed.messages()
    found += [message["params"]["data"] for message in messages[:-1]]
    assert [int(text.split()[0]) for text in found] == [1, 2, 3, 4, 5, 6]
    assert messages[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-POST-10")
def test_elicitation_from_daphne_is_answered_through_uvicorn(live: LiveServer, client: Mcp) -> None:
    call = {"name": "welcome", "arguments": {}}
    with closing(client.via(live.ports[1])) as answering, client.open_call("tools/call", call) as stream:
        question = stream.message()
        answering.respond(question["id"], {"action": "accept", "content": {"value": "Ada"}})
        assert stream.messages()[-1]["result"]["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.requirement("T-GET-01", "T-GET-03", "T-SSE-04")
def test_stream_delivers_catalogue_changes_and_keep_alives(client: Mcp, admin: OtherProcess) -> None:
    with client.get_stream() as stream:
        stream.next()
        admin.switch("spare", on=False)
        admin.switch("spare", on=True)
        assert stream.message(2)["method"] == "notifications/tools/list_changed"
        assert not stream.ended
        eventually(lambda: stream.quiet(0.1) and b"\n\n:" in stream.raw, 4, "a keep-alive comment")


@pytest.mark.requirement("T-SSE-07", "T-GET-06")
def test_disconnected_reader_frees_the_stream(client: Mcp) -> None:
    with client.get_stream() as stream:
        stream.next()
        second = client.try_get_stream()
        assert isinstance(second, Answer)
        assert second.status == 409

    def let_in() -> bool:
        found = client.try_get_stream()
        if not isinstance(found, Answer):
            found.cut()
        return found.status == 200

    eventually(let_in, 2, "the place is free")


@pytest.mark.requirement("SES-07")
def test_session_ended_at_uvicorn_ends_its_stream_at_daphne(live: LiveServer, client: Mcp) -> None:
    with client.get_stream() as stream, closing(client.via(live.ports[1])) as elsewhere:
        stream.next()
        assert elsewhere.delete().status == 200
        while stream.next(2) is not None:
            pass
    assert client.post(client.request_message("ping")).status == 404


@pytest.mark.requirement("BATCH-04")
def test_batch_returns_an_array(daphne: int) -> None:
    with closing(Mcp.at(daphne)) as client:
        client.initialize("2025-03-26")
        answer = client.post([client.request_message("ping") for _ in range(3)])
        assert not is_stream(answer)
        assert len(answer.json()) == 3
