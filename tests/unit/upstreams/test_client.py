"""Calls of other servers over sockets: sessions, messages before the result, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_app.protocol.client.answers import Answered, Event, LogLine, Notice, Progress
from mcp_app.protocol.client.faults import Kind, UpstreamFault
from mcp_app.protocol.errors import SessionNotFound
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from mcp_app.upstreams import client, health, sessions
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.listening import Listener
from mcp_app.upstreams.server import UpstreamServer
from tests.unit.egress.sites import Heard, response, serve_kept
from tests.unit.transports.streamable_http.asgi import LOOPBACK
from tests.unit.upstreams.conftest import Upstream

TOOLS = [("tools", "tools/list", "tools")]
only_legacy = pytest.mark.parametrize("version", [V2025_11_25])
only_modern = pytest.mark.parametrize("version", [V2026_07_28])


async def call(
    server: UpstreamServer, name: str, arguments: dict[str, Any] | None = None, key: str = "one", **more: Any
) -> dict[str, Any]:
    more = {"hops": 0, "seconds": 10.0, **more}
    params = {"name": name, "arguments": arguments or {}}
    answer = await client.requested(server, Caller(key), "tools/call", params, **more)
    assert isinstance(answer, Answered)
    return answer.result


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.requirement("INT-63")
async def test_tools_are_listed_and_called_in_each_revision(upstream: Upstream, version: str) -> None:
    server, events = upstream.settings(), list[Event]()

    async def record(event: Event) -> None:
        events.append(event)

    found = await client.listing(server, TOOLS)
    assert found.peer.version == version
    names = [tool["name"] for tool in found.items["tools"]]
    assert names == ["steps", "counter", "wait", "asking", "failing"]
    assert text(await call(server, "steps", {"number": 2}, on_event=record)) == "2 steps"
    assert [event.progress for event in events if isinstance(event, Progress)] == [1.0, 2.0]
    assert [event.level for event in events if isinstance(event, LogLine)] == ["warning"]
    assert (await call(server, "failing"))["isError"] is True


@only_legacy
async def test_listing_leaves_no_session(upstream: Upstream) -> None:
    await client.listing(upstream.settings(), TOOLS)
    assert [method for method, _ in upstream.requests][-1] == "DELETE"
    (number,) = upstream.session_ids
    with pytest.raises(SessionNotFound):
        await upstream.server.process.sessions.load(number.decode(), "loopback")
    assert sessions._kept == {}


@pytest.mark.requirement("INT-62")
@only_legacy
async def test_keys_have_separate_sessions(upstream: Upstream) -> None:
    server = upstream.settings()
    keys = [f"client-{number}" for number in range(8)]
    results = await asyncio.gather(*(call(server, "counter", key=key) for _ in range(5) for key in keys))
    assert len(results) == 40
    assert sorted(upstream.sessions.values()) == [5] * 8
    assert len(upstream.session_ids) == 8


@only_legacy
async def test_ended_session_is_opened_once_more(upstream: Upstream) -> None:
    server = upstream.settings()
    await call(server, "counter")
    (first,) = upstream.session_ids
    await upstream.server.process.sessions.end(first.decode(), "the test ends it")
    upstream.requests.clear()
    assert text(await call(server, "counter")) == "1"
    assert len(upstream.session_ids - {first}) == 1
    posts = [headers for method, headers in upstream.requests if method == "POST"]
    # The refused call, the handshake of two messages, and the call. The era is known.
    assert len(posts) == 4


@only_legacy
async def test_ended_session_that_redis_has_is_opened_once_more(
    upstream: Upstream, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    server = upstream.settings()
    await call(server, "counter")
    (first,) = upstream.session_ids
    await upstream.server.process.sessions.end(first.decode(), "the test ends it")
    assert text(await call(server, "counter")) == "1"
    assert len(upstream.session_ids - {first}) == 1


@only_legacy
async def test_idle_session_that_another_process_uses_goes_on(
    upstream: Upstream, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    server = upstream.settings()
    await call(server, "counter")
    ((name, kept),) = sessions._kept.items()
    # Redis has the session, because another process used it lately.
    kept.used_at -= 2 * sessions.IDLE_SECONDS
    await sessions._end_if_idle(name, kept.peer, server)
    assert text(await call(server, "counter")) == "2"


@only_legacy
async def test_processes_share_sessions_through_redis(
    upstream: Upstream, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    server = upstream.settings()
    assert text(await call(server, "counter")) == "1"
    sessions._kept.clear()  # As in another process.
    assert text(await call(server, "counter")) == "2"
    (first,) = upstream.session_ids
    await upstream.server.process.sessions.end(first.decode(), "the test ends it")
    sessions._kept.clear()
    assert text(await call(server, "counter")) == "1"
    assert len(upstream.session_ids) == 2


@only_modern
async def test_modern_server_has_one_handshake_and_no_sessions(upstream: Upstream) -> None:
    server = upstream.settings()
    for key in ("one", "two"):
        await call(server, "counter", key=key)
    assert len(upstream.requests) == 3
    assert upstream.session_ids == set()


async def test_listing_has_a_handshake_with_the_texts_of_the_server(
    upstream: Upstream, clean_redis: str, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "REDIS_URL": clean_redis}
    server = upstream.settings()
    await call(server, "counter")
    sessions._kept.clear()  # As in another process, which has the handshake of Redis.
    found = await client.listing(server, TOOLS)
    assert found.peer.info["name"] == LOOPBACK.server.name


@pytest.mark.requirement("INT-63")
async def test_cancelled_call_stops_at_the_server(upstream: Upstream) -> None:
    task = asyncio.create_task(call(upstream.settings(), "wait"))
    async with asyncio.timeout(10):
        await upstream.waiting.wait()
        task.cancel()
        await upstream.stopped.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_question_is_declined(upstream: Upstream, version: str) -> None:
    if version == V2026_07_28:
        with pytest.raises(UpstreamFault) as fault:
            await call(upstream.settings(), "asking")
        assert fault.value.kind == Kind.REFUSED
    else:
        assert (await call(upstream.settings(), "asking"))["isError"] is True


@pytest.mark.requirement("INT-78")
@only_modern
async def test_calls_in_a_loop_end(upstream: Upstream) -> None:
    server = upstream.settings()
    await call(server, "failing", hops=client.MAX_HOPS - 1)
    upstream.requests.clear()
    with pytest.raises(UpstreamFault):
        await call(server, "failing", hops=client.MAX_HOPS)
    assert upstream.requests == []


@pytest.mark.parametrize(
    ("meta", "hops"), [({}, 0), ({client.HOPS: 3}, 3), ({client.HOPS: -9}, 0), ({client.HOPS: "9"}, 0)]
)
def test_hops_are_read_from_the_meta(meta: dict[str, Any], hops: int) -> None:
    assert client.hops_of(meta) == hops


@pytest.mark.requirement("INT-61")
@only_modern
async def test_only_own_headers_are_sent(upstream: Upstream) -> None:
    await call(upstream.settings(), "failing")
    _, headers = upstream.requests[-1]
    assert headers.keys() == {
        b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type", b"content-length",
        b"mcp-protocol-version", b"mcp-method", b"mcp-name",
    }  # fmt: skip


@only_modern
@pytest.mark.parametrize(("era", "kind"), [("legacy", Kind.REFUSED), ("modern", None)])
async def test_chosen_era_is_not_probed(upstream: Upstream, era: str, kind: Kind | None) -> None:
    server = upstream.settings(era=era)
    if kind is None:
        await call(server, "failing")
        return
    with pytest.raises(UpstreamFault) as fault:
        await call(server, "failing")
    assert fault.value.kind == kind


@pytest.mark.requirement("INT-74")
@only_modern
async def test_private_address_is_blocked(upstream: Upstream, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ()}
    with pytest.raises(UpstreamFault) as fault:
        await call(upstream.settings(), "failing")
    assert (fault.value.kind, fault.value.sent, upstream.requests) == (Kind.BLOCKED, False, [])


@only_modern
async def test_server_that_left_the_legacy_era_is_asked_again(upstream: Upstream) -> None:
    server = upstream.settings()
    sessions._legacy_until[server.key] = float("inf")
    with pytest.raises(UpstreamFault):
        await call(server, "failing")
    assert (await call(server, "failing"))["isError"] is True


# What people see of a server.


async def lists(server: UpstreamServer) -> None:
    await client.listing(server, [("tools", "tools/list", "tools")])


async def completes(server: UpstreamServer) -> None:
    await client.completion(server, Caller("one"), {}, 2.0)


async def calls(server: UpstreamServer) -> None:
    await call(server, "counter")


async def listens(server: UpstreamServer) -> None:
    async def ignore(_: Notice) -> None:
        raise AssertionError("no notification was sent")

    await Listener(server, ignore).run(())


@pytest.mark.requirement("INT-70")
@pytest.mark.parametrize("send", [lists, completes, calls, listens])
@pytest.mark.parametrize("status", ["503 Away", "401 No", ""])
async def test_failed_handshake_is_an_outcome_of_the_server(
    send: Callable[[UpstreamServer], Awaitable[None]], status: str
) -> None:
    async def handle(_request: Heard, writer: asyncio.StreamWriter) -> None:
        if status:
            writer.write(response(b"", status=status))
        else:
            writer.close()

    async with serve_kept(handle) as site:
        server = UpstreamServer(77, "failing", f"http://127.0.0.1:{site.port}/mcp", seconds=2.0)
        with pytest.raises(UpstreamFault) as fault:
            await send(server)
    assert health._reported[77][0] == fault.value.kind.value
