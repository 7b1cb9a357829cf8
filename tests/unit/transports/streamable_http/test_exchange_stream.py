"""2026-07-28 responses: one body or a stream, its messages, and a disconnect of either side."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from mcp_app.auth.principal import LOOPBACK as LOCAL
from mcp_app.protocol.errors import Unauthorized, Unavailable
from mcp_app.protocol.messages.envelope import LOG_LEVEL
from mcp_app.streams.gateway import Streams
from mcp_app.transports.streamable_http import sse_response
from tests.bounds import SLACK
from tests.samples import published_schema
from tests.unit.transports.streamable_http import modern as asked
from tests.unit.transports.streamable_http.asgi import Exchange, Server
from tests.unit.transports.streamable_http.modern import Desk, V, meta, modern

TOKEN = {"progressToken": "p"}
NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
}


@pytest.fixture
def desk() -> Desk:
    """Return the tools of a test."""
    made = Desk()
    asked.offer(made)
    return made


def slow(server: Server, name: str = "slow", **told: Any) -> Exchange:
    return modern(server, "tools/call", {"name": name}, request_id="s", told=meta(**told))


async def gone(exchange: Exchange) -> None:
    exchange.gone.set()
    await exchange.done()


@pytest.mark.requirement("T-MOD-02", "T-MOD-03", "T-MOD-04", "T-MOD-11", "T-SSE-03", "PROG-05", "PROG-01")
async def test_stream_has_messages_then_answer(server: Server, desk: Desk) -> None:
    stream = slow(server, **TOKEN, **{LOG_LEVEL: "info"})
    await stream.until(b"notifications/message")
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert stream.headers[b"x-accel-buffering"] == b"no"
    desk.go_on.set()
    await stream.done()
    assert stream.is_complete
    methods = [message.get("method") for message in stream.messages]
    assert methods == ["notifications/progress", "notifications/message", "notifications/progress", None]
    *told, answer = stream.messages
    assert answer["id"] == "s"
    assert answer["result"]["resultType"] == "complete"
    assert not any("id" in message for message in told)
    for message in told:
        assert not published_schema.problems(V, NOTIFICATIONS[message["method"]], message)
    assert {message["params"].get("progressToken") for message in told} == {"p", None}
    assert not any(event.id for event in stream.events)
    assert b"id:" not in stream.body.split(b"data:")[0]


@pytest.mark.requirement("T-SSE-05")
async def test_response_stays_one_body_without_messages(server: Server, desk: Desk) -> None:
    exchange = slow(server)
    await desk.begun.wait()
    await asyncio.sleep(0)
    assert exchange.sent == []
    desk.go_on.set()
    await exchange.done()
    assert exchange.headers[b"content-type"] == b"application/json"
    assert exchange.json["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-SSE-05")
async def test_long_silence_opens_stream_with_keep_alives(streams: Streams, desk: Desk) -> None:
    server = Server(streams, keep_alive_seconds=0.02, grace_seconds=0)
    stream = slow(server, "silent")
    await stream.until(b":")
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert not stream.messages
    desk.go_on.set()
    (answer,) = (await stream.done()).messages
    assert answer["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("LOG-03", "LOG-08")
@pytest.mark.parametrize(
    ("level", "heard"),
    [
        (None, []),
        ("debug", ["debug", "info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("emergency", []),
    ],
)
async def test_log_messages_follow_requested_level(
    level: str | None, heard: list[str], server: Server, desk: Desk
) -> None:
    exchange = await modern(server, "tools/call", {"name": "logs"}, told=meta(**{LOG_LEVEL: level})).done()
    if not heard:
        assert exchange.json["result"]["content"][0]["text"] == "logged"
        return
    *told, answer = exchange.messages
    assert [message["params"]["level"] for message in told] == heard
    assert answer["result"]["content"][0]["text"] == "logged"


@pytest.mark.requirement("PROG-01")
async def test_progress_requires_token(server: Server, desk: Desk) -> None:
    desk.go_on.set()
    exchange = await slow(server).done()
    assert exchange.json["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-MOD-05", "CAN-05")
@pytest.mark.parametrize("name", ["slow", "silent"])
async def test_client_disconnect_cancels_call(name: str, server: Server, desk: Desk) -> None:
    exchange = slow(server, name, **TOKEN)
    await desk.begun.wait()
    sent = len(exchange.body) if exchange.sent else 0
    await gone(exchange)
    async with asyncio.timeout(2):
        await desk.cancelled.wait()
    assert b'"result"' not in exchange.body[sent:]
    assert not server.endpoint.connections.open
    await asyncio.sleep(0)
    assert not server.process.calls.running


@pytest.mark.requirement("T-MOD-05")
async def test_stalled_client_cancels_call(streams: Streams, desk: Desk) -> None:
    server = Server(streams, stall_seconds=0.02)
    exchange = slow(server, **TOKEN)
    exchange.stalled = asyncio.Event()
    await exchange.done()
    async with asyncio.timeout(2):
        await desk.cancelled.wait()


@pytest.mark.requirement("CAN-05")
async def test_cancel_notification_has_no_effect(server: Server, desk: Desk) -> None:
    exchange = slow(server, "silent")
    await desk.begun.wait()
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}
    heard = await server.send(message=told, headers={"mcp-protocol-version": V}).done()
    assert heard.status == 202
    desk.go_on.set()
    assert (await exchange.done()).json["result"]["content"][0]["text"] == "done"
    assert not desk.cancelled.is_set()


async def test_shutdown_answers_unfinished_calls(
    server: Server, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_app.transports.streamable_http.exchange_stream.STOPPING_SECONDS", 0.02)
    plain, stream = slow(server, "silent"), slow(server, **TOKEN)
    await stream.until(b"notifications/progress")
    server.endpoint.connections.drain()
    for answer in ((await plain.done()).json, (await stream.done()).messages[-1]):
        assert answer["id"] == "s"
        assert answer["error"]["code"] == -32603
        assert "stopping" in answer["error"]["message"]
    async with asyncio.timeout(2):
        await desk.cancelled.wait()


async def test_shutdown_waits_for_calls_about_to_finish(server: Server, desk: Desk) -> None:
    exchange = slow(server, "silent")
    await desk.begun.wait()
    server.endpoint.connections.drain()
    desk.go_on.set()
    assert (await exchange.done()).json["result"]["content"][0]["text"] == "done"


async def test_replaced_process_finishes_its_answers(server: Server, desk: Desk) -> None:
    exchange = slow(server, **TOKEN)
    await exchange.until(b"notifications/progress")
    server.endpoint.connections.leave()
    assert server.endpoint.connections.answering == 1
    desk.go_on.set()
    assert (await exchange.done()).messages[-1]["result"]["content"][0]["text"] == "done"
    assert server.endpoint.connections.answering == 0


@pytest.mark.requirement("SEC-07", "T-MOD-12")
async def test_stream_above_limit_is_refused_with_request_id(streams: Streams, desk: Desk) -> None:
    server = Server(streams, max_streams_per_principal=1)
    first = slow(server, "silent")
    await desk.begun.wait()
    while not server.endpoint.connections.open:
        await asyncio.sleep(0.001)
    desk.begun.clear()
    second = await slow(server, "silent").done()
    assert (second.status, second.json["id"]) == (429, "s")
    async with asyncio.timeout(2):
        await desk.cancelled.wait()
    desk.go_on.set()
    assert (await first.done()).status == 200


class Clock(NamedTuple):
    """The stream's source of the time of day."""

    now: float

    def time(self) -> float:
        return self.now


class Doorman:
    """An authenticator that knows a principal until changed."""

    def __init__(self, server: Server, **principal: Any) -> None:
        self.known_as = replace(LOCAL, **principal)
        self.error: Exception | None = None
        self.asked = 0
        # The class has slots, so its object is replaced by a configurable one.
        server.process.authenticator = self  # type: ignore[assignment]

    def known(self, *_: Any, **__: Any) -> Any:
        return self.known_as

    async def authenticate(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.known_as


@pytest.mark.requirement("AUTH-18")
async def test_revoked_credential_ends_stream_and_call(streams: Streams, desk: Desk) -> None:
    server = Server(streams, keep_alive_seconds=0.02)
    doorman = Doorman(server)
    stream = slow(server, **TOKEN)
    await stream.until(b"notifications/progress")
    doorman.error = Unauthorized()
    await stream.done()
    assert not stream.is_complete
    async with asyncio.timeout(2):
        await desk.cancelled.wait()


@pytest.mark.requirement("AUTH-18")
async def test_credential_expiring_before_response_returns_401(streams: Streams, desk: Desk) -> None:
    server = Server(streams, grace_seconds=0)
    doorman = Doorman(server, expires_at=time.time() + 0.05)
    doorman.error = Unauthorized()
    exchange = await slow(server, "silent").done()
    assert (exchange.status, exchange.json["id"]) == (401, "s")
    assert b"www-authenticate" in exchange.headers


async def test_authentication_outage_ends_stream_only_at_expiry(
    streams: Streams, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(streams, keep_alive_seconds=0.02, grace_seconds=0)
    doorman = Doorman(server, expires_at=time.time() + 3600)
    doorman.error = Unavailable()
    started = time.monotonic()
    stream = slow(server, "silent")
    async with asyncio.timeout(5 + SLACK):
        while doorman.asked < 3 or stream.body.count(b":") < 2:
            await asyncio.sleep(0.01)
    monkeypatch.setattr(sse_response, "time", Clock(time.time() + 3601))
    await stream.done()
    assert doorman.asked <= (time.monotonic() - started) / 0.02 + 1, "asked once for each keep-alive"
    assert not stream.is_complete
