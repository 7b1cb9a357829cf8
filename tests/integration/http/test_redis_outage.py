"""Redis outages: it stops, hangs and returns. Requests are refused cleanly, and service recovers soon."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from tests.bounds import SLACK
from tests.clients.raw_http import Answer, Mcp, RawClient
from tests.integration.http.conftest import check_logs
from tests.servers.live import LiveServer, eventually


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(2, settings="tests.integration.http.settings") as server:
        yield server
        check_logs(server)


@pytest.fixture
def session(server: LiveServer) -> Iterator[Mcp]:
    for process in (0, 1):
        eventually(lambda at=process: knows_redis(server, at), 10, "the links to Redis stand")  # type: ignore[misc]
    client = server.mcp(0)
    client.initialize()
    yield client
    client.close()


def knows_redis(server: LiveServer, process: int) -> bool:
    with RawClient("127.0.0.1", server.ports[process]) as raw:
        return "redis" not in raw.request("GET", "/readyz").json().get("missing", [])


def initialize(client: Mcp) -> Answer:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    return client.post(client.request_message("initialize", params))


def check_refusal(answer: Answer) -> None:
    assert answer.status == 503
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == -32603
    assert "Redis" in answer.json()["error"]["message"]
    assert "127.0.0.1" not in answer.json()["error"]["message"]


def serves(server: LiveServer, process: int) -> bool:
    client = server.mcp(process)
    try:
        with suppress(AssertionError):
            client.initialize()
            return bool(client.tool("steps", count=2)["result"]["content"][0]["text"] == "done")
        return False
    finally:
        client.close()


@pytest.mark.requirement("SEC-07")
def test_processes_return_503_without_redis_and_recover_in_5_seconds(
    server: LiveServer, session: Mcp
) -> None:
    pids = [process.pid for process in server.processes]
    other = session.via(server.ports[1])
    with session.get_stream() as stream:
        stream.next()
        server.redis.stop()
        for client in (session, other):
            started = time.monotonic()
            check_refusal(initialize(client))
            assert time.monotonic() - started < 2 + SLACK
        # The other process does not know the session and cannot look it up.
        check_refusal(other.post(other.request_message("tools/list")))
        check_refusal(_answer(session, "standalone.1.0"))
        with RawClient("127.0.0.1", server.ports[0]) as raw:
            assert raw.request("GET", "/healthz").status == 200
            assert raw.request("GET", "/readyz").status == 503
        server.redis.start()
        back = time.monotonic()
        for process in (0, 1):
            eventually(lambda at=process: serves(server, at), 5, f"process {process + 1} serves again")  # type: ignore[misc]
        assert time.monotonic() - back < 5 + SLACK
        # This Redis restarted empty: the stream is lost, and its reader sees it end.
        while stream.next(6) is not None:
            pass
    assert [process.pid for process in server.processes] == pids
    assert all(process.alive for process in server.processes)
    other.close()


def _answer(client: Mcp, last_event_id: str) -> Answer:
    found = client.try_get_stream(last_event_id)
    assert isinstance(found, Answer)
    return found


@pytest.mark.requirement("SES-05")
def test_session_lost_by_redis_returns_404_and_a_new_one_works(server: LiveServer, session: Mcp) -> None:
    assert session.call("ping")["result"] == {}
    server.redis.stop()
    server.redis.start()
    other = session.via(server.ports[1])
    eventually(lambda: other.post(other.request_message("ping")).status == 404, 5, "404 at the other process")
    eventually(
        lambda: session.post(session.request_message("ping")).status == 404, 5, "404 at its own process"
    )
    assert session.initialize()["protocolVersion"]
    assert session.tool("steps", count=1)["result"]["content"]
    other.close()


def test_known_session_is_served_from_memory_without_redis(server: LiveServer, session: Mcp) -> None:
    assert session.call("ping")["result"] == {}
    server.redis.stop()
    try:
        assert session.call("ping")["result"] == {}
        assert session.tool("test_simple_text")["result"]["content"]
        # A response that would be a stream is sent as one JSON object, without its notifications.
        assert session.tool("steps", count=3)["result"]["content"][0]["text"] == "done"
        held = session.call("tools/call", {"name": "hold", "arguments": {"name": "alone", "seconds": 0.3}})
        assert held["result"]["content"][0]["text"] == "alone"
    finally:
        server.redis.start()
    eventually(lambda: serves(server, 0) and serves(server, 1), 5, "both serve again")


@pytest.mark.requirement("T-RES-06")
def test_hanging_redis_delays_a_running_stream_without_loss(server: LiveServer, session: Mcp) -> None:
    assert server.redis.process is not None
    call = {"name": "hold", "arguments": {"name": "frozen", "seconds": 1.0}}
    with session.open_call("tools/call", call) as stream:
        stream.next()
        os.kill(server.redis.process.pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            check_refusal(initialize(session))
            assert time.monotonic() - started < 4 + SLACK
            eventually(lambda: "finished frozen" in ledger(server), 3, "the tool ends meanwhile")
        finally:
            os.kill(server.redis.process.pid, signal.SIGCONT)
        assert stream.messages(8)[-1]["result"]["content"][0]["text"] == "frozen"
    eventually(lambda: serves(server, 0) and serves(server, 1), 5, "both serve again")


def ledger(server: LiveServer) -> list[str]:
    return (server.folder / "data" / "ledger").read_text(encoding="utf-8").splitlines()


GAP = "Earlier messages of this stream are no longer kept."


def warnings(messages: list[Any]) -> list[str]:
    """Return the server's own warnings on a stream."""
    found = [each["params"] for each in messages if each.get("method") == "notifications/message"]
    return [each["data"] for each in found if each["logger"] == "mcp.stream"]


def empty(server: LiveServer) -> None:
    with redis.Redis.from_url(server.redis.url, protocol=2) as client:
        client.flushall()


@pytest.mark.requirement("T-RES-08")
def test_call_on_an_open_connection_survives_emptied_redis(server: LiveServer, session: Mcp) -> None:
    arguments = {"count": 12, "delay_seconds": 0.25}
    with session.open_call("tools/call", {"name": "steps", "arguments": arguments}) as stream:
        said = [stream.message() for _ in range(3)]
        empty(server)
        rest = stream.messages(30)
    assert rest[-1]["result"]["content"][0]["text"] == "done"
    assert warnings(rest) == [GAP]
    numbers = [
        int(each["params"]["data"].split()[0])
        for each in [*said, *rest]
        if "method" in each and each["params"]["logger"] != "mcp.stream"
    ]
    assert numbers == sorted(set(numbers))


def test_silent_call_survives_emptied_redis(server: LiveServer, session: Mcp) -> None:
    arguments = {"name": "silent", "seconds": 7.0}
    with session.open_call("tools/call", {"name": "hold", "arguments": arguments}) as stream:
        empty(server)
        assert stream.messages(30)[-1]["result"]["content"][0]["text"] == "silent"
