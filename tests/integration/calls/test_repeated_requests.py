"""Repeated requests with real processes (R7): a retry gets the call's response, a reused id a new run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.clients.raw_http import EventStream, Mcp
from tests.clients.raw_sse import HttpSseClient
from tests.clients.stdio_child import Child
from tests.integration.calls.conftest import Installation, OpenSession, text_of

pytestmark = pytest.mark.process

# Sends one request of a client, by its params, and returns the response.
Send = Callable[[dict[str, Any]], dict[str, Any]]
TRANSPORTS = ("2025-03-26", "2025-06-18", "2025-11-25", "HTTP+SSE", "stdio")


@pytest.fixture(params=TRANSPORTS)
def send(request: pytest.FixtureRequest, live: Installation, open_session: OpenSession) -> Iterator[Send]:
    """Return a client that sends each request with id 1, over every transport with sessions."""
    if request.param == "HTTP+SSE":
        with HttpSseClient(live.ports) as old:
            old.open()
            old.initialize()

            def over_sse(params: dict[str, Any]) -> dict[str, Any]:
                old.next_id = 0
                return old.call("tools/call", params, process=1)

            yield over_sse
    elif request.param == "stdio":
        with Child(live.installation) as child:
            child.initialize()
            yield lambda params: child.call(1, "tools/call", params)
            child.end()
    else:
        client = open_session(request.param)
        with closing(client.via(live.ports[1])) as elsewhere:
            turns = [client, elsewhere]

            def over_http(params: dict[str, Any]) -> dict[str, Any]:
                turns.reverse()
                turns[0].next_id = 0
                return turns[0].call("tools/call", params)

            yield over_http


@pytest.mark.parametrize("tool", ["work_once", "work_here"])
@pytest.mark.requirement("RPC-03")
def test_reused_request_id_starts_a_new_run_each_time(
    live: Installation, send: Send, nonce: str, tool: str
) -> None:
    for number, steps in enumerate([1, 1, 2, 1], 1):
        answer = send({"name": tool, "arguments": {"nonce": nonce, "steps": steps, "delay": 0.01}})
        assert answer["id"] == 1
        assert text_of(answer).endswith(str(steps))
        assert len(live.lines(nonce, "start")) == number


def _open(client: Mcp, nonce: str, **more: Any) -> EventStream:
    arguments = {"nonce": nonce, "steps": 5, "delay": 0.05, **more}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    body = json.dumps({**message, "params": {"name": "work_once", "arguments": arguments}}).encode()
    found = client.client.open_stream("POST", client.path, client.headers(), body)
    assert isinstance(found, EventStream), found
    return found


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25"])
def test_retry_after_a_lost_connection_gets_the_response_once(
    live: Installation, open_session: OpenSession, nonce: str, version: str
) -> None:
    # Two seconds, in which the server learns that the connection is lost, before it sends the response there.
    slow = {"steps": 20, "delay": 0.1}
    client = open_session(version)
    with closing(client.via(live.ports[1])) as elsewhere:
        lost = _open(client, nonce, **slow)
        live.started(nonce)
        lost.cut()
        live.started(nonce, "end")
        with _open(elsewhere, nonce, **slow) as retry:
            assert text_of(retry.messages()[-1]).startswith(nonce)
        assert len(live.lines(nonce, "start")) == 1
        with _open(client, nonce, **slow) as again:
            assert text_of(again.messages()[-1]).startswith(nonce)
        assert len(live.lines(nonce, "start")) == 2


def test_request_id_is_reusable_after_a_resumed_stream(
    live: Installation, client: Mcp, elsewhere: Mcp, nonce: str
) -> None:
    lost = _open(client, nonce)
    assert lost.message()
    last = lost.last_event_id
    lost.cut()
    with elsewhere.get_stream(last) as resumed:
        assert text_of(resumed.messages()[-1]).startswith(nonce)
    with _open(client, nonce) as again:
        assert text_of(again.messages()[-1]).startswith(nonce)
    assert len(live.lines(nonce, "start")) == 2


@pytest.mark.parametrize("arguments", [{}, {"steps": 1}])
def test_request_id_is_reusable_after_cancellation(
    live: Installation, client: Mcp, nonce: str, arguments: dict[str, Any]
) -> None:
    with _open(client, nonce, steps=500) as stopped:
        live.started(nonce)
        assert client.notify("notifications/cancelled", {"requestId": 1}).status == 202
        stopped.messages()
    with _open(client, nonce, **{"steps": 2, **arguments}) as again:
        assert text_of(again.messages()[-1]).startswith(nonce)
    assert len(live.lines(nonce, "start")) == 2


def test_id_in_flight_is_refused_for_other_arguments(live: Installation, client: Mcp, nonce: str) -> None:
    with _open(client, nonce, steps=40):
        live.started(nonce)
        params = {"name": "work_once", "arguments": {"nonce": nonce, "steps": 1}}
        refused = client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        assert refused.json()["error"]["code"] == -32600
        client.notify("notifications/cancelled", {"requestId": 1})
    assert len(live.lines(nonce, "start")) == 1
