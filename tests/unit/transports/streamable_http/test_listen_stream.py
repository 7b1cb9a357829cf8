"""subscriptions/listen over HTTP: content, reader checks, and end of a stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mcp_app.auth.principal import LOOPBACK as LOCAL
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.entries import ResourceEntry
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.message_log.log import DIRECTION, FACTS, KIND, OUTCOME, SESSION_ID
from mcp_app.protocol.errors import Unauthorized, Unavailable
from mcp_app.protocol.features.subscriptions import METHOD, SUBSCRIPTION_ID, Notice
from mcp_app.protocol.messages.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, SERVER_INFO, VERSION
from mcp_app.protocol.versions import V2026_07_28
from mcp_app.sessions.resource_updates import publish_update
from mcp_app.streams.gateway import Streams
from tests.unit.transports.streamable_http.asgi import LOOPBACK, Exchange, Server, request

TOOLS = {"toolsListChanged": True}
EVERYTHING = {**TOOLS, "promptsListChanged": True, "resourcesListChanged": True}
META = {
    VERSION: V2026_07_28,
    CLIENT_CAPABILITIES: {},
    CLIENT_INFO: {"name": "tests", "version": "1"},
}
HEADERS: dict[str, str | None] = {"mcp-protocol-version": V2026_07_28, "mcp-method": METHOD}
CHANGED = "notifications/{}/list_changed"


def listen(server: Server, asked: Any, request_id: Any = 1) -> Exchange:
    """Start listening."""
    params = {"_meta": META} if asked is None else {"_meta": META, "notifications": asked}
    return server.send(message=request(METHOD, params, request_id), headers=HEADERS)


async def acknowledged(server: Server, asked: Any, request_id: Any = 1) -> Exchange:
    stream = listen(server, asked, request_id)
    await stream.until(b"acknowledged")
    return stream


async def leave(exchange: Exchange) -> Exchange:
    exchange.gone.set()
    return await exchange.done()


def resource(uri: str, permission: str = "") -> ResourceEntry:
    wire = {"uri": uri, "name": uri}
    return ResourceEntry(wire=wire, permission=permission, order=(0, 0, 0), uri=uri, function=None)


def publish(server: Server, revision: int, **kinds: int) -> None:
    """Put another catalogue in use and announce it in this process."""
    current_snapshot.replace(Catalogue(revision=revision, revisions={**dict.fromkeys(KINDS, 5), **kinds}))
    for callback in server.process.catalogue_refresher.on_change:
        callback()


def offer(*entries: ResourceEntry) -> None:
    current_snapshot.replace(Catalogue(revision=5, revisions=dict.fromkeys(KINDS, 5), resources=entries))


def methods(stream: Exchange) -> list[str]:
    return [message.get("method", "") for message in stream.messages]


def nothing_is_left(server: Server) -> bool:
    modern = server.endpoint._modern
    held = modern._subscriptions
    return not (held._listening or held._by_key or server.endpoint.connections.open)


@pytest.fixture
async def quick_looks(streams: Streams) -> AsyncIterator[Server]:
    """Return a process that sends keep-alives and checks readers every 20 ms."""
    made = Server(streams, keep_alive_seconds=0.02)
    yield made
    made.endpoint.connections.drain()
    await made.process.calls.close(0.01)


@pytest.mark.requirement("SUB-01", "SUB-02", "SUB-14", "SUB-15", "T-MOD-11")
@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ({}, {}),
        (EVERYTHING, EVERYTHING),
        ({**TOOLS, "promptsListChanged": False, "unheardOf": True}, TOOLS),
        ({"resourceSubscriptions": ["a://1", "a://hidden", "a://unknown", "a://1", "x" * 3000]},
         {"resourceSubscriptions": ["a://1"]}),
        ({"resourceSubscriptions": ["a://unknown"]}, {}),
    ],
)  # fmt: skip
async def test_first_message_acknowledges_served_filter(
    server: Server, asked: dict[str, Any], granted: dict[str, Any]
) -> None:
    offer(resource("a://1"), resource("a://hidden", "app.secret"))
    stream = await acknowledged(server, asked)
    assert stream.status == 200
    assert stream.headers[b"content-type"] == b"text/event-stream"
    assert stream.headers[b"x-accel-buffering"] == b"no"
    await leave(stream)
    assert stream.messages == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": granted, "_meta": {SUBSCRIPTION_ID: 1}},
        }
    ]


@pytest.mark.requirement("SUB-01", "SUB-11", "T-MOD-12")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (None, "notifications"),
        ([], "notifications"),
        ({"toolsListChanged": "yes"}, "toolsListChanged"),
        ({"resourceSubscriptions": "a://1"}, "list of strings"),
        ({"resourceSubscriptions": [f"a://{number}" for number in range(101)]}, "at most 100"),
    ],
)
async def test_invalid_filter_is_rejected_with_plain_error(server: Server, asked: Any, words: str) -> None:
    answer = await listen(server, asked, "n").done()
    assert (answer.status, answer.json["id"], answer.json["error"]["code"]) == (400, "n", -32602)
    assert words in answer.json["error"]["message"]
    assert nothing_is_left(server)


@pytest.mark.requirement("SUB-03", "SUB-04", "SUB-07")
async def test_each_stream_gets_requested_changes_with_its_id(server: Server) -> None:
    tools = await acknowledged(server, TOOLS, 0)
    also = await acknowledged(server, TOOLS, "x")
    prompts = await acknowledged(server, {"promptsListChanged": True}, 0)
    publish(server, 8, tools=7, resources=8)
    await tools.until(b"list_changed")
    await also.until(b"list_changed")
    publish(server, 9, prompts=9, tools=7, resources=8)
    await prompts.until(b"list_changed")
    for stream, request_id, kind in ((tools, 0, "tools"), (also, "x", "tools"), (prompts, 0, "prompts")):
        await leave(stream)
        assert methods(stream)[1:] == [CHANGED.format(kind)]
        for message in stream.messages:
            tag = message["params"]["_meta"][SUBSCRIPTION_ID]
            assert (tag, type(tag)) == (request_id, type(request_id))


@pytest.mark.requirement("SUB-11")
async def test_concurrent_changes_become_one_notification(server: Server) -> None:
    stream = await acknowledged(server, EVERYTHING)
    for revision in range(6, 60):
        publish(server, revision, tools=revision)
    await stream.until(b"list_changed")
    publish(server, 70, tools=59, prompts=70)
    await stream.until(b"prompts/list_changed")
    await leave(stream)
    assert methods(stream)[1:] == [CHANGED.format("tools"), CHANGED.format("prompts")]


@pytest.mark.requirement("SUB-05")
async def test_change_before_acknowledgement_is_delivered(server: Server) -> None:
    stream = listen(server, TOOLS)
    stream.stalled = asyncio.Event()
    async with asyncio.timeout(10):
        while nothing_is_left(server):
            await asyncio.sleep(0)
    assert not stream.sent
    publish(server, 6, tools=6)
    stream.stalled.set()
    await stream.until(b"list_changed")
    await leave(stream)
    assert methods(stream) == ["notifications/subscriptions/acknowledged", CHANGED.format("tools")]


@pytest.mark.requirement("SUB-06", "SUB-10", "RES-11")
async def test_resource_update_reaches_subscribers_with_permission(server: Server, streams: Streams) -> None:
    offer(resource("a://1"), resource("a://2"), resource("a://3"))
    one = await acknowledged(server, {"resourceSubscriptions": ["a://1", "a://2"]}, 1)
    other = await acknowledged(server, {"resourceSubscriptions": ["a://3"], **TOOLS}, 2)
    offer(resource("a://1"), resource("a://2", "app.secret"), resource("a://3"))
    for uri in ("a://2", "a://unheard-of", "a://1", "a://3"):
        await publish_update(streams, uri)
    await one.until(b"resources/updated")
    await other.until(b"resources/updated")
    for stream, uri in ((one, "a://1"), (other, "a://3")):
        await leave(stream)
        assert [message["params"].get("uri") for message in stream.messages[1:]] == [uri]


@pytest.mark.requirement("SUB-12")
async def test_resync_notifies_all_subscribed_resources(server: Server) -> None:
    offer(resource("a://1"), resource("a://2"))
    stream = await acknowledged(server, {"resourceSubscriptions": ["a://1", "a://2"]})
    await server.process.streams.hub.publish("resource", {"resync": True})
    await stream.until(b'"uri":"a://2"')
    await leave(stream)
    assert methods(stream)[1:] == ["notifications/resources/updated"] * 2


@pytest.mark.requirement("SUB-11")
async def test_pending_news_of_slow_client_are_bounded_by_subscription(
    server: Server, streams: Streams
) -> None:
    offer(resource("a://1"), resource("a://2"))
    stream = await acknowledged(server, {"resourceSubscriptions": ["a://1", "a://2"], **TOOLS})
    stream.stalled = asyncio.Event()
    for number in range(500):
        await publish_update(streams, f"a://{number % 2 + 1}")
        publish_revision = 6 + number
        current_snapshot.current().revisions["tools"] = publish_revision
        server.endpoint._modern._subscriptions._catalogue_changed()
    (subscription,) = server.endpoint._modern._subscriptions._listening
    assert len(subscription._news) <= 2
    stream.stalled.set()
    await stream.until(b'"uri":"a://2"')
    await leave(stream)
    assert len(stream.messages) < 10


@pytest.mark.requirement("SUB-08", "LOG-03", "PROG-07")
async def test_unsubscribed_messages_are_not_sent(server: Server, streams: Streams) -> None:
    stream = await acknowledged(server, EVERYTHING)
    headers = await server.initialize()
    reading = server.listen(headers)
    await reading.until(b"id:")
    await server.send(message=request("ping"), headers=headers).done()
    publish(server, 6, tools=6)
    await stream.until(b"list_changed")
    await leave(reading)
    await leave(stream)
    assert methods(stream)[1:] == [CHANGED.format("tools")]


# Reader checks


@pytest.mark.requirement("SUB-10")
async def test_idle_stream_is_kept_alive_by_comments(quick_looks: Server) -> None:
    stream = await acknowledged(quick_looks, {})
    await stream.until(b": ping\n\n: ping\n\n")
    await leave(stream)
    assert len(stream.messages) == 1


async def test_news_at_end_of_rest_interval_are_not_lost(streams: Streams) -> None:
    server = Server(streams, keep_alive_seconds=0.001)
    opened = [await acknowledged(server, TOOLS, number) for number in range(5)]
    for revision in range(6, 1006):
        publish(server, revision, tools=revision)
        await asyncio.sleep(0)
    for stream in opened:
        await stream.until(b"list_changed")
        (subscription,) = [
            each
            for each in server.endpoint._modern._subscriptions._listening
            if each.request_id == opened.index(stream)
        ]
        async with asyncio.timeout(10):
            while subscription._heard["tools"] != 1005:
                await asyncio.sleep(0)
        await leave(stream)


@pytest.mark.requirement("SUB-10", "SUB-09")
async def test_revoked_credential_ends_stream_with_answer(
    quick_looks: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await acknowledged(quick_looks, {}, 0)

    async def refuse(*args: Any, **more: Any) -> Principal:
        raise Unauthorized

    monkeypatch.setattr(quick_looks.process, "authenticator", Asked(refuse))
    await stream.done()
    assert stream.is_complete
    assert stream.messages[-1]["id"] == 0
    assert stream.messages[-1]["result"]["_meta"][SUBSCRIPTION_ID] == 0


class Asked:
    """An authenticator with one fixed answer."""

    def __init__(self, answer: Any) -> None:
        self.authenticate = answer


@pytest.mark.requirement("SUB-10")
async def test_authentication_outage_keeps_stream_and_later_permissions_apply(
    quick_looks: Server, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(resource("a://1"))
    stream = await acknowledged(quick_looks, {"resourceSubscriptions": ["a://1"]})
    (subscription,) = quick_looks.endpoint._modern._subscriptions._listening
    asked: list[int] = []

    async def away(*args: Any, **more: Any) -> Principal:
        asked.append(1)
        if len(asked) < 3:
            raise Unavailable
        return replace(LOCAL, permissions=frozenset({"app.secret"}))

    monkeypatch.setattr(quick_looks.process, "authenticator", Asked(away))
    async with asyncio.timeout(10):
        while "app.secret" not in subscription.principal.permissions:
            await asyncio.sleep(0)
    offer(resource("a://1", "app.secret"))
    await publish_update(streams, "a://1")
    await stream.until(b"resources/updated")
    await leave(stream)


@pytest.mark.requirement("SUB-09", "SUB-10")
async def test_credential_expiry_ends_stream_with_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = replace(LOCAL, expires_at=time.time() + 0.05)
    monkeypatch.setattr(server.endpoint, "known", lambda *_: brief)
    stream = await acknowledged(server, TOOLS)
    await stream.done()
    assert stream.is_complete
    assert stream.messages[-1]["result"]["resultType"] == "complete"


# How it ends


@pytest.mark.requirement("SUB-09", "CAN-07", "T-MOD-03", "T-MOD-04")
async def test_shutdown_answers_every_listener(server: Server) -> None:
    opened = [await acknowledged(server, TOOLS, number) for number in ("a", 0, 7)]
    publish(server, 6, tools=6)
    server.endpoint.connections.drain()
    for stream, request_id in zip(opened, ("a", 0, 7), strict=True):
        await stream.done()
        assert stream.is_complete
        last = stream.messages[-1]
        assert set(last) == {"jsonrpc", "id", "result"}
        assert last["id"] == request_id
        assert last["result"]["resultType"] == "complete"
        assert set(last["result"]["_meta"]) == {SERVER_INFO, SUBSCRIPTION_ID}
        # Pending changes are sent before.
        assert methods(stream)[1:] == [CHANGED.format("tools"), ""]
    assert nothing_is_left(server)


@pytest.mark.requirement("SUB-13")
async def test_client_disconnect_leaves_nothing_behind(server: Server) -> None:
    offer(resource("a://1"))
    before = len(asyncio.all_tasks())
    opened = [
        await acknowledged(server, {**EVERYTHING, "resourceSubscriptions": ["a://1"]}, number)
        for number in range(20)
    ]
    # A stream has no task besides that of its request.
    assert len(asyncio.all_tasks()) == before + 20
    for stream in opened:
        await leave(stream)
    assert nothing_is_left(server)


@pytest.mark.requirement("SUB-13")
@pytest.mark.parametrize("how", ["broken", "stalled"])
async def test_unwritable_client_is_dropped(streams: Streams, how: str) -> None:
    server = Server(streams, stall_seconds=0.02)
    stream = await acknowledged(server, TOOLS)
    if how == "broken":
        stream.broken = True
    else:
        stream.stalled = asyncio.Event()
    publish(server, 6, tools=6)
    await stream.done()
    assert not stream.is_complete
    assert nothing_is_left(server)


async def test_operator_can_end_stream(server: Server, streams: Streams) -> None:
    stream = await acknowledged(server, TOOLS)
    (subscription,) = server.endpoint._modern._subscriptions._listening
    assert server.endpoint.connections.by_session() == {subscription.id: (True, 1)}
    await streams.hub.publish("session", {"session": subscription.id, "what": "ended", "reason": "x"})
    await stream.done()
    assert stream.messages[-1]["result"]["resultType"] == "complete"


@pytest.mark.requirement("SUB-11")
async def test_listen_streams_are_bounded_per_principal(streams: Streams) -> None:
    server = Server(streams, max_streams_per_principal=2)
    opened = [await acknowledged(server, {}, number) for number in range(2)]
    refused = await listen(server, {}, 3).done()
    assert refused.status == 429
    assert refused.json["id"] == 3
    await leave(opened[0])
    await leave(await acknowledged(server, {}, 3))
    await leave(opened[1])


async def test_message_log_has_request_notifications_and_end(streams: Streams) -> None:
    server = Server(streams, LOOPBACK, message_log=True)
    stream = await acknowledged(server, TOOLS, 5)
    publish(server, 6, tools=6)
    await stream.until(b"list_changed")
    server.endpoint.connections.drain()
    await stream.done()
    log = server.process.log
    lines = [(line[DIRECTION], line[KIND], line[FACTS][0], line[OUTCOME]) for line in log._pending]
    assert lines == [
        ("in", "request", METHOD, "ok"),
        ("out", "notification", CHANGED.format("tools"), ""),
        ("out", "response", METHOD, ""),
    ]
    assert len({line[SESSION_ID] for line in log._pending}) == 1
    opened, ended = log._facts
    assert (opened["fact"], opened["version"], opened["client_name"]) == (
        "session.opened",
        V2026_07_28,
        "tests",
    )
    assert opened["fields"] == {}  # No client can resume it.
    assert (ended["fact"], ended["reason"]) == ("session.ended", "the server ended it")


async def test_news_of_another_kind_are_delivered(server: Server) -> None:
    """The extension point used for task notifications."""
    held = server.endpoint._modern._subscriptions
    offer(resource("a://1"))
    stream = await acknowledged(server, {"resourceSubscriptions": ["a://1"]})
    assert held.includes("resourceSubscriptions", "a://1")
    assert not held.includes("resourceSubscriptions", "a://2")
    held.notify("resourceSubscriptions", "a://1", Notice("notifications/other", {"n": 1}))
    await stream.until(b"notifications/other")
    await leave(stream)
    assert not held.includes("resourceSubscriptions", "a://1")


async def test_many_streams_are_woken_in_turns_and_notified_once(server: Server) -> None:
    opened = [listen(server, TOOLS, number) for number in range(250)]
    for stream in opened:
        await stream.until(b"acknowledged")
    publish(server, 6, tools=6)
    for stream in opened:
        await stream.until(b"list_changed")
    for stream in opened:
        await leave(stream)
        assert len(stream.messages) == 2
