"""2026-07-28: one body or a stream, what travels on it, and what happens when either side goes away."""

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
    """What the tools of a test do."""
    made = Desk()
    asked.offer(made)
    return made


def slow(server: Server, name: str = "slow", **told: Any) -> Exchange:
    return modern(server, "tools/call", {"name": name}, request_id="s", told=meta(**told))


async def gone(exchange: Exchange) -> None:
    exchange.gone.set()
    await exchange.done()


@pytest.mark.requirement("T-MOD-02", "T-MOD-03", "T-MOD-04", "T-MOD-11", "T-SSE-03", "PROG-05", "PROG-01")
async def test_messages_of_the_request_come_first_then_its_answer_then_the_end(
    server: Server, desk: Desk
) -> None:
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
async def test_it_stays_one_body_as_long_as_there_is_nothing_to_say(server: Server, desk: Desk) -> None:
    exchange = slow(server)
    await desk.begun.wait()
    await asyncio.sleep(0)
    assert exchange.sent == []
    desk.go_on.set()
    await exchange.done()
    assert exchange.headers[b"content-type"] == b"application/json"
    assert exchange.json["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-SSE-05")
async def test_a_long_silence_makes_it_a_stream_that_is_kept_alive(streams: Streams, desk: Desk) -> None:
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
async def test_log_messages_are_sent_only_to_a_request_that_asks(
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
async def test_without_a_token_there_is_no_progress(server: Server, desk: Desk) -> None:
    desk.go_on.set()
    exchange = await slow(server).done()
    assert exchange.json["result"]["content"][0]["text"] == "done"


@pytest.mark.requirement("T-MOD-05", "CAN-05")
@pytest.mark.parametrize("name", ["slow", "silent"])
async def test_a_client_that_goes_away_has_cancelled(name: str, server: Server, desk: Desk) -> None:
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
async def test_a_client_that_stops_reading_has_cancelled(streams: Streams, desk: Desk) -> None:
    server = Server(streams, stall_seconds=0.02)
    exchange = slow(server, **TOKEN)
    exchange.stalled = asyncio.Event()
    await exchange.done()
    async with asyncio.timeout(2):
        await desk.cancelled.wait()


@pytest.mark.requirement("CAN-05")
async def test_a_cancel_by_notification_has_no_effect(server: Server, desk: Desk) -> None:
    exchange = slow(server, "silent")
    await desk.begun.wait()
    told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "s"}}
    heard = await server.send(message=told, headers={"mcp-protocol-version": V}).done()
    assert heard.status == 202
    desk.go_on.set()
    assert (await exchange.done()).json["result"]["content"][0]["text"] == "done"
    assert not desk.cancelled.is_set()


async def test_a_process_that_stops_answers_what_does_not_end_in_time(
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


async def test_a_process_that_stops_lets_end_what_ends_soon(server: Server, desk: Desk) -> None:
    exchange = slow(server, "silent")
    await desk.begun.wait()
    server.endpoint.connections.drain()
    desk.go_on.set()
    assert (await exchange.done()).json["result"]["content"][0]["text"] == "done"


async def test_a_process_that_another_replaces_lets_end_what_it_answers(server: Server, desk: Desk) -> None:
    exchange = slow(server, **TOKEN)
    await exchange.until(b"notifications/progress")
    server.endpoint.connections.leave()
    assert server.endpoint.connections.answering == 1
    desk.go_on.set()
    assert (await exchange.done()).messages[-1]["result"]["content"][0]["text"] == "done"
    assert server.endpoint.connections.answering == 0


@pytest.mark.requirement("SEC-07", "T-MOD-12")
async def test_one_stream_too_many_is_refused_with_the_id(streams: Streams, desk: Desk) -> None:
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
    """What the stream takes the time of day from."""

    now: float

    def time(self) -> float:
        return self.now


class Doorman:
    """Knows a principal until told otherwise."""

    def __init__(self, server: Server, **principal: Any) -> None:
        self.known_as = replace(LOCAL, **principal)
        self.error: Exception | None = None
        self.asked = 0
        # The class has slots, so its object is exchanged for one that can be told.
        server.process.authenticator = self  # type: ignore[assignment]

    def known(self, *_: Any, **__: Any) -> Any:
        return self.known_as

    async def authenticate(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.known_as


@pytest.mark.requirement("AUTH-18")
async def test_a_credential_that_is_taken_back_ends_the_stream_and_the_call(
    streams: Streams, desk: Desk
) -> None:
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
async def test_a_credential_that_expires_before_anything_was_sent_is_told_so(
    streams: Streams, desk: Desk
) -> None:
    server = Server(streams, grace_seconds=0)
    doorman = Doorman(server, expires_at=time.time() + 0.05)
    doorman.error = Unauthorized()
    exchange = await slow(server, "silent").done()
    assert (exchange.status, exchange.json["id"]) == (401, "s")
    assert b"www-authenticate" in exchange.headers


async def test_while_nobody_can_be_asked_only_an_expired_credential_ends_it(
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
