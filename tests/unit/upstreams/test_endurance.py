"""Rounds of calls that are answered, cut, cancelled, too slow or in an ended session leave nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcp_app.egress import connections
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.versions import V2025_11_25
from mcp_app.upstreams import client, exchanges, open_calls, sessions
from mcp_app.upstreams.breaker import Breaker
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.open_calls import OpenCall
from mcp_app.upstreams.server import UpstreamServer
from tests.unit.egress.sites import Heard, response, serve_kept

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
# How each call of a round ends.
ENDS: dict[str, Kind | None] = {
    "answered": None, "cut": Kind.BROKEN_OFF, "silent": Kind.TIMEOUT, "cancelled": None,
    "expired": Kind.EXPIRED,
}  # fmt: skip


class Unsteady:
    """A server of the legacy era whose tools end as their names say. ``open`` are its sessions."""

    def __init__(self) -> None:
        self.open: set[str] = set()
        self.refuses_initialized = self.closes_at_delete = False
        self.called = asyncio.Event()
        self._numbers = count(1)

    async def __call__(self, heard: Heard, writer: asyncio.StreamWriter) -> None:
        message = orjson.loads(heard.body) if heard.body else {}
        if message.get("method") == "initialize":
            number = f"s{next(self._numbers)}"
            self.open.add(number)
            told = {"protocolVersion": V2025_11_25, "capabilities": {"tools": {}}, "serverInfo": {}}
            writer.write(answer(message, told, f"Mcp-Session-Id: {number}"))
        elif message.get("method") == "notifications/initialized" and self.refuses_initialized:
            writer.write(response(b"", status="500 Internal Server Error"))
        elif message.get("method") == "tools/call":
            self.called.set()
            self._end(message["params"]["name"], message, heard, writer)
        else:
            if heard.line.startswith("DELETE") and self.closes_at_delete:
                self.closes_at_delete = False
                writer.close()
                return
            if heard.line.startswith("DELETE"):
                self.open.discard(str(heard.header("mcp-session-id")))
            writer.write(response(b"", status="202 Accepted"))

    def _end(self, end: str, message: Any, heard: Heard, writer: asyncio.StreamWriter) -> None:
        if end == "answered":
            writer.write(answer(message, {"content": []}))
        elif end == "cut":
            writer.write(HEAD + b"data: {")
            writer.close()
        elif end == "expired":
            self.open.discard(str(heard.header("mcp-session-id")))
            writer.write(response(b"", status="404 Not Found"))


def answer(message: Any, found: dict[str, Any], *headers: str) -> bytes:
    return response(orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}), *headers)


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.requirement("INT-75")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts the sockets of Linux")
@pytest.mark.parametrize("rounds", [50, pytest.param(1_000, marks=pytest.mark.thorough)])
async def test_rounds_of_calls_leave_nothing_behind(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.05)
    site, loop = Unsteady(), asyncio.get_running_loop()
    async with serve_kept(site) as served:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{served.port}/mcp", era="legacy")
        await one_round(server, site, "answered", None, 0)
        await settled()
        tasks, opened = len(asyncio.all_tasks(loop)), descriptors()
        for number, (end, kind) in enumerate(islice(cycle(ENDS.items()), rounds), 1):
            await one_round(server, site, end, kind, number)
            # Another test shows when calls are refused.
            client._breakers[1] = Breaker()
        await settled()
        assert len(asyncio.all_tasks(loop)) <= tasks
        assert descriptors() <= opened
    assert site.open == set()


@pytest.mark.requirement("INT-75")
async def test_session_of_a_failed_handshake_is_ended() -> None:
    site = Unsteady()
    site.refuses_initialized = True
    async with serve_kept(site) as served:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{served.port}/mcp", era="legacy")
        with pytest.raises(UpstreamFault):
            await client.opened(server, Caller("session:1"))
    assert site.open == set()


@pytest.mark.requirement("INT-75")
async def test_session_is_ended_beside_a_connection_that_closes() -> None:
    site, caller = Unsteady(), Caller("session:1")
    site.closes_at_delete = True
    async with serve_kept(site) as served:
        server = UpstreamServer(1, "other", f"http://127.0.0.1:{served.port}/mcp", era="legacy")
        await client.opened(server, caller)
        await sessions.end(server, caller)
    assert not site.closes_at_delete
    assert site.open == set()


async def one_round(server: UpstreamServer, site: Unsteady, end: str, kind: Kind | None, number: int) -> None:
    """Open a session, call, and end both."""
    caller = Caller(f"session:{number}")
    seconds = 0.05 if end == "silent" else 5.0
    site.called.clear()
    # The handshake comes first, so that a round cuts or cancels only its call.
    await client.opened(server, caller)

    def send(take: Any) -> Any:
        params = {"name": end, "arguments": {}}
        return client.requested(
            server, caller, "tools/call", params, hops=0, seconds=seconds, on_question=take
        )

    call = asyncio.create_task(OpenCall(send, frozenset(), "user:1").step())
    if end == "cancelled":
        await site.called.wait()
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
    elif kind is None:
        await call
    else:
        with pytest.raises(UpstreamFault) as fault:
            await call
        assert fault.value.kind == kind
    await sessions.end(server, caller)


async def settled() -> None:
    """Wait until no request, connection or session is left."""
    kept = await connections.kept()
    async with asyncio.timeout(20):
        while kept.idle or kept.busy or kept.turns or exchanges._side or sessions._ending or sessions._kept:
            await asyncio.sleep(0.02)
        # The other end closes its sockets in its next steps.
        await asyncio.sleep(0.1)
    assert not open_calls._parked
