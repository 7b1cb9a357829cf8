"""The event stream of one connection: content, reader checks, and end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mcp_app.auth.principal import LOOPBACK as LOCAL
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.sessions.session import STANDALONE
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http.asgi import LOOPBACK, Exchange, Server, request

Headers = dict[str, str | None]


def session_of(headers: Headers) -> str:
    return headers["mcp-session-id"] or ""


async def tell(streams: Streams, headers: Headers, text: bytes = b'{"n":1}') -> None:
    """Append a message to the standalone stream of the session."""
    await streams.log.append(session_of(headers), STANDALONE, text)


async def leave(exchange: Exchange) -> Exchange:
    exchange.gone.set()
    return await exchange.done()


def publish(revision: int, **kinds: int) -> None:
    current_snapshot.replace(Catalogue(revision=revision, revisions={**dict.fromkeys(KINDS, 5), **kinds}))


@pytest.mark.requirement("T-POLL-01", "T-POLL-02")
@pytest.mark.parametrize(("version", "is_primed"), [("2025-11-25", True), ("2025-06-18", False)])
async def test_stream_starts_with_priming_event_where_supported(
    version: str, is_primed: bool, server: Server
) -> None:
    stream = server.listen(await server.initialize(version))
    await stream.until(b"\n\n")
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert bool(stream.events and stream.events[0].id) == is_primed
    await leave(stream)


@pytest.mark.requirement("T-GET-09")
async def test_messages_sent_while_disconnected_arrive_once(server: Server) -> None:
    headers = await server.initialize()
    streams = server.process.streams
    await tell(streams, headers, b'{"n":1}')
    first = server.listen(headers)
    await first.until(b'"n":1')
    await tell(streams, headers, b'{"n":2}')
    await first.until(b'"n":2')
    await leave(first)
    await tell(streams, headers, b'{"n":3}')
    second = server.listen(headers)
    await second.until(b'"n":3')
    await leave(second)
    assert [message["n"] for message in first.messages] == [1, 2]
    assert [message["n"] for message in second.messages] == [3]


# Catalogue levels


@pytest.mark.requirement("TOOL-23")
async def test_changed_list_is_announced_once(server: Server) -> None:
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    publish(9, tools=7, prompts=9)
    server.endpoint.connections.announce_catalogue()
    await stream.until(b"prompts/list_changed")
    server.endpoint.connections.announce_catalogue()
    await tell(server.process.streams, headers)
    await stream.until(b'"n":1')
    await leave(stream)
    assert [message.get("method", "") for message in stream.messages] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "",
    ]


async def test_returning_client_is_announced_changes_once(streams: Streams) -> None:
    one, other = Server(streams), Server(streams)
    headers = await one.initialize()
    publish(8, resources=8)
    first = one.listen(headers)
    await first.until(b"resources/list_changed")
    await leave(first)
    again = other.listen(headers)
    await again.until(b"id:")
    await tell(streams, headers)
    await again.until(b'"n":1')
    await leave(again)
    assert b"list_changed" not in again.body


async def test_announced_change_is_not_repeated_by_another_process(
    streams: Streams,
) -> None:
    one, other = Server(streams), Server(streams)
    headers = await one.initialize()
    first = one.listen(headers)
    await first.until(b"id:")
    publish(8, resources=8)
    one.endpoint.connections.announce_catalogue()
    await first.until(b"resources/list_changed")
    await leave(first)
    again = other.listen(headers)
    await again.until(b"id:")
    await tell(streams, headers)
    await again.until(b'"n":1')
    await leave(again)
    assert b"list_changed" not in again.body


async def test_slow_reader_gets_change_later_and_delays_no_other_stream(
    server: Server,
) -> None:
    slow, quick = [server.listen(await server.initialize()) for _ in range(2)]
    for stream in (slow, quick):
        await stream.until(b"id:")
    slow.stalled = asyncio.Event()
    for number in (8, 9):
        publish(number, tools=number)
        server.endpoint.connections.announce_catalogue()
        await quick.until(b"list_changed")
    assert b"list_changed" not in slow.body
    slow.stalled.set()
    await slow.until(b"list_changed")
    for stream in (slow, quick):
        await leave(stream)
    assert 1 <= slow.body.count(b"list_changed") <= 2


@pytest.mark.parametrize("how", ["stalled", "broken"])
async def test_unreached_client_gets_change_on_return(how: str, streams: Streams) -> None:
    server = Server(streams, stall_seconds=0.01)
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    stream.stalled = asyncio.Event() if how == "stalled" else None
    stream.broken = how == "broken"
    publish(8, tools=8)
    server.endpoint.connections.announce_catalogue()
    await stream.done()
    again = server.listen(headers)
    await again.until(b"tools/list_changed")
    await leave(again)


async def test_change_is_announced_only_after_initialized(server: Server) -> None:
    headers = await server.initialize(ready=False)
    publish(9, tools=9)
    stream = server.listen(headers)
    await stream.until(b"id:")
    told = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert b"list_changed" not in stream.body
    await server.send(message=told, headers=headers).done()
    await stream.until(b"tools/list_changed")
    await leave(stream)


# Reader checks


async def test_busy_stream_rechecks_its_reader(streams: Streams) -> None:
    server = Server(streams, keep_alive_seconds=0.02)
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    checked: list[bytes | None] = []
    authenticate = server.process.authenticator.authenticate

    async def noting(authorization: bytes | None, *, local: bool, path: str) -> Any:
        checked.append(authorization)
        return await authenticate(authorization, local=local, path=path)

    # The class has slots, so its object is replaced by a recording one.
    server.process.authenticator = Noting(noting)  # type: ignore[assignment]
    async with asyncio.timeout(5):
        while len(checked) < 3:
            await tell(streams, headers)
            await asyncio.sleep(0.002)
    await leave(stream)


class Noting:
    """An authenticator queried by the check of the stream."""

    def __init__(self, authenticate: Callable[..., Any]) -> None:
        self.authenticate = authenticate


async def test_stream_ends_when_credential_is_revoked(streams: Streams) -> None:
    server = Server(streams, keep_alive_seconds=0.01)
    stream = server.listen(await server.initialize())
    await stream.until(b"id:")
    server.process.authenticator._loopback = False  # As if the key had been revoked.
    await stream.done()
    assert stream.is_complete


@pytest.mark.requirement("AUTH-18")
async def test_stream_ends_at_credential_expiry(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = await server.initialize()
    expiring = replace(LOCAL, expires_at=time.time() + 0.05)
    monkeypatch.setattr("mcp_app.auth.authentication.LOOPBACK", expiring)
    stream = await server.listen(headers).done()
    assert time.time() >= (expiring.expires_at or 0)
    assert stream.is_complete
    assert stream.events[-1].retry == server.process.settings.stream_retry_ms


async def test_stream_survives_brief_redis_outage(streams: Streams) -> None:
    server = Server(streams, keep_alive_seconds=0.01)
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    update, load = streams.sessions.update, streams.sessions.load
    failed = asyncio.Event()

    async def away(*args: Any, **kwargs: Any) -> Any:
        failed.set()
        raise StreamsUnavailable("away")

    streams.sessions.update = streams.sessions.load = away  # type: ignore[method-assign]
    server.process.sessions._cache.clear()
    await tell(streams, headers, b'{"n":1}')
    publish(9, tools=9)
    server.endpoint.connections.announce_catalogue()
    await stream.until(b"tools/list_changed")
    await failed.wait()
    streams.sessions.update, streams.sessions.load = update, load  # type: ignore[method-assign]
    await tell(streams, headers, b'{"n":2}')
    await stream.until(b'"n":2')
    assert not stream.task.done()
    await leave(stream)


@pytest.mark.requirement("T-GET-06")
async def test_second_listener_is_refused_unless_resuming(streams: Streams) -> None:
    one, other = Server(streams), Server(streams)
    headers = await one.initialize()
    first = one.listen(headers)
    await first.until(b"id:")
    assert (await other.listen(headers).done()).status == 409
    second = other.listen(headers, last=first.events[0].id)
    await second.until(b"id:")
    await first.done()
    assert first.is_complete
    await leave(second)
    third = one.listen(headers)
    await third.until(b"id:")
    await leave(third)


async def test_failed_listener_does_not_block_next_one(server: Server) -> None:
    headers = await server.initialize()
    streams = server.process.streams
    opening = streams.log.open

    async def away(*args: Any) -> Any:
        raise StreamsUnavailable("away")

    streams.log.open = away  # type: ignore[method-assign]
    assert (await server.listen(headers).done()).status == 503
    streams.log.open = opening  # type: ignore[method-assign]
    stream = server.listen(headers)
    await stream.until(b"id:")
    await leave(stream)


# Ends


async def ended_by_session(server: Server, headers: Headers) -> None:
    assert (await server.send("DELETE", headers=headers).done()).status == 200


async def ended_by_drain(server: Server, headers: Headers) -> None:
    server.endpoint.connections.drain()


@pytest.mark.parametrize("end", [ended_by_session, ended_by_drain])
async def test_stream_ended_by_server_is_terminated_properly(end: Any, server: Server) -> None:
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    await end(server, headers)
    await stream.done()
    assert stream.is_complete
    assert server.endpoint.connections._by_session == {}


@pytest.mark.requirement("T-POLL-05")
@pytest.mark.parametrize(("version", "is_rotated"), [("2025-11-25", True), ("2025-06-18", False)])
async def test_long_stream_is_rotated_if_client_can_resume(
    version: str, is_rotated: bool, streams: Streams
) -> None:
    server = Server(streams, stream_max_seconds=0.0, keep_alive_seconds=0.01)
    headers = await server.initialize(version)
    stream = server.listen(headers)
    await stream.until(b": ping" if not is_rotated else b"retry:")
    await tell(streams, headers)
    if is_rotated:
        await stream.done()
        assert stream.is_complete
        assert stream.events[-1].retry == 1000
    else:
        await stream.until(b'"n":1')
        await leave(stream)


async def test_stalled_reader_is_disconnected(streams: Streams) -> None:
    server = Server(streams, stall_seconds=0.01)
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    stream.stalled = asyncio.Event()
    await tell(streams, headers)
    await stream.done()
    assert not stream.is_complete
    assert server.endpoint.connections._by_session == {}
    assert await streams.windows.held(f"listener/{session_of(headers)}") == 0


async def test_broken_connection_is_not_logged_as_incident(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    headers = await server.initialize()
    stream = server.listen(headers)
    await stream.until(b"id:")
    stream.broken = True
    await tell(server.process.streams, headers)
    await stream.done()
    gone = server.send(message=request("ping"), headers=headers)
    gone.broken = True
    await gone.done()
    assert "Incident" not in caplog.text
    assert server.endpoint.connections._by_session == {}


async def test_gap_is_reported_before_remaining_messages(streams: Streams) -> None:
    server = Server(Streams.in_memory(replace(LOOPBACK, max_stream_events=2)))
    await server.process.streams.start()
    headers = await server.initialize()
    for number in range(5):
        await tell(server.process.streams, headers, b'{"n":%d}' % number)
    stream = server.listen(headers)
    await stream.until(b'"n":4')
    await leave(stream)
    assert stream.body.index(b"no longer kept") < stream.body.index(b'"n":3')
    assert [message["n"] for message in stream.messages if "n" in message] == [3, 4]
