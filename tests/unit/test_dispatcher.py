"""The pipeline of one process: batches, notifications, responses, and a changing catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import orjson
import pytest
from django.db import OperationalError

from mcp_app import Context
from mcp_app import dispatcher as module
from mcp_app.catalogue.snapshots import catalogue_refresher, current_snapshot
from mcp_app.catalogue.snapshots.snapshot import KINDS, Catalogue
from mcp_app.execution.calls.reply import Answered
from mcp_app.message_log.log import PAYLOAD
from mcp_app.protocol.capabilities import ClientCapabilities
from mcp_app.protocol.errors import InvalidRequest, TooManyRequests
from mcp_app.protocol.messages import jsonrpc
from mcp_app.protocol.messages.jsonrpc import Invalid, Notification, Request, Response
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.gateway import Streams
from tests.unit.catalogue.entries import resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer


async def chatty(ctx: Context) -> str:
    """Talks first."""
    ctx.info("working")
    return "done"


async def asking(ctx: Context) -> str:
    """Asks its client."""
    return str(await ctx.aroots())


async def plain() -> str:
    """Needs no waiting."""
    return "done"


async def endless() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    raise AssertionError


def notes() -> str:
    """Notes."""
    return "notes"


@pytest.fixture(autouse=True)
def _offered() -> Iterator[None]:
    before = current_snapshot.current()
    offer(
        tools=[tool_entry(chatty), tool_entry(endless, 2), tool_entry(asking, 3), tool_entry(plain, 4)],
        resources=[resource_entry(notes, "notes://all")],
    )
    yield
    current_snapshot.replace(before)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    streams = Streams.in_memory()
    await streams.start()
    made = Desk(streams)
    await made.open("2025-03-26")
    yield made
    await made.process.calls.close(0.01)


def call(name: str, request_id: Any = 1) -> Request:
    return Request(request_id, "tools/call", {"name": name, "arguments": {}})


def ids(messages: list[Any]) -> list[Any]:
    return [message.get("id") for message in messages if "method" not in message]


async def test_non_waiting_tool_is_answered_in_one_step(desk: Desk) -> None:
    serving = desk.process.dispatcher.request(desk.asked(), call("plain"), b"{}")
    with pytest.raises(StopIteration) as step:
        serving.send(None)
    assert orjson.loads(step.value.value.body)["result"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.requirement("BATCH-04")
async def test_quick_batch_requests_are_answered_in_one_array(desk: Desk) -> None:
    found = await desk.batch(Request(1, "ping", {}), Request("2", "tools/list", {}), Request(3, "no", {}))
    assert ids(found) == [1, "2", 3]
    assert [("error" in message) for message in found] == [False, False, True]


async def test_batch_with_early_streaming_call_is_answered_completely(
    desk: Desk,
) -> None:
    subscribing = desk.streams.sessions.add_subscription

    async def slow(*args: Any) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
        return await subscribing(*args)

    desk.streams.sessions.add_subscription = slow  # type: ignore[method-assign]
    found = await desk.batch(call("chatty"), Request(2, "resources/subscribe", {"uri": "notes://all"}))
    assert sorted(ids(found)) == [1, 2]


async def test_call_cancelled_in_its_own_batch_is_answered(desk: Desk) -> None:
    cancelled = Notification("notifications/cancelled", {"requestId": 1})
    (answer,) = await desk.batch(call("endless"), cancelled)
    assert answer["error"]["code"] == -32800
    assert not desk.session.in_flight


async def test_duplicate_id_in_batch_is_answered_twice_and_runs_once(desk: Desk) -> None:
    found = await desk.batch(
        call("endless"), call("endless"), Notification("notifications/cancelled", {"requestId": 1})
    )
    assert sorted(message["error"]["code"] for message in found) == [-32800, -32600]


@pytest.mark.requirement("BATCH-04")
async def test_invalid_batch_member_is_answered_with_its_id_if_readable(desk: Desk) -> None:
    found = await desk.batch(Invalid(InvalidRequest("bad"), 7), Invalid(InvalidRequest("bad"), None))
    assert [message.get("id", "none") for message in found] == [7, "none"]


async def test_batch_without_requests_is_accepted(desk: Desk) -> None:
    members: list[Any] = [Notification("notifications/initialized", {}), Response("unknown", {}, None)]
    outcome = await desk.process.dispatcher.batch(desk.asked(), members)
    assert outcome is module.ACCEPTED
    assert desk.session.initialized


async def test_lost_notification_fails_only_a_batch_without_requests(desk: Desk) -> None:
    async def away(*args: Any) -> None:
        raise StreamsUnavailable("away")

    desk.streams.hub.publish = away  # type: ignore[method-assign]
    cancel = Notification("notifications/cancelled", {"requestId": 99})
    assert ids(await desk.batch(Request(1, "ping", {}), cancel, call("chatty", 2))) == [1, 2]
    with pytest.raises(StreamsUnavailable):
        await desk.batch(cancel)


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (Request(1, "ping", {}), {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}),
        (Notification("n", {"a": 1}), {"jsonrpc": "2.0", "method": "n", "params": {"a": 1}}),
        (Response(1, {"a": 1}, None), {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}),
        (
            Response("1", None, {"code": 1, "message": "m"}),
            {"jsonrpc": "2.0", "id": "1", "error": {"code": 1, "message": "m"}},
        ),
    ],
)
def test_batch_member_is_logged_as_sent(member: Any, expected: dict[str, Any]) -> None:
    assert orjson.loads(jsonrpc.encode_member(member)) == expected


@pytest.mark.requirement("CAN-03")
@pytest.mark.parametrize(
    "params",
    [{}, {"requestId": None}, {"requestId": True}, {"requestId": 1.0}, {"requestId": [1]}, {"requestId": {}}],
)
async def test_malformed_cancel_is_ignored(params: dict[str, Any], desk: Desk) -> None:
    heard: list[Any] = []
    desk.streams.hub.subscribe("cancel", heard.append)
    await desk.notify("notifications/cancelled", params)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heard == []


@pytest.mark.requirement("CAN-04")
async def test_cancel_of_remote_call_is_broadcast_with_truncated_reason(desk: Desk) -> None:
    heard: list[Any] = []
    desk.streams.hub.subscribe("cancel", heard.append)
    await desk.notify("notifications/cancelled", {"requestId": "r", "reason": "w" * 999})
    await desk.notify("$/cancelRequest", {"id": 5})
    async with asyncio.timeout(5):
        while len(heard) < 2:
            await asyncio.sleep(0)
    assert [(each["session"], each["request_id"], len(each["reason"])) for each in heard] == [
        (desk.session.id, "r", 200),
        (desk.session.id, 5, 0),
    ]


async def test_unknown_notification_is_ignored(desk: Desk) -> None:
    await desk.notify("notifications/own", {"x": 1})
    assert not desk.session.in_flight


@pytest.mark.requirement("SEC-09")
async def test_form_content_is_not_logged(desk: Desk) -> None:
    desk.process.log.enabled = True
    typed = {"action": "accept", "content": {"name": "very private"}}
    body = orjson.dumps({"jsonrpc": "2.0", "id": "elicitation-1", "result": typed})
    await desk.process.dispatcher.response(desk.session, Response("elicitation-1", typed, None), body)
    (line,) = desk.process.log._pending
    assert b"very private" not in line[PAYLOAD]
    assert orjson.loads(line[PAYLOAD])["result"]["action"] == "accept"


# The catalogue


class Stored:
    """A catalogue stored elsewhere that may be unavailable."""

    def __init__(self) -> None:
        self.revision = 1
        self.faults = 0
        self.asked = 0

    async def refresh(self) -> Catalogue:
        self.asked += 1
        if self.faults:
            self.faults -= 1
            raise OperationalError("the database is away")
        if current_snapshot.current().revision != self.revision:
            current_snapshot.replace(
                Catalogue(revision=self.revision, revisions=dict.fromkeys(KINDS, self.revision))
            )
        return current_snapshot.current()


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    made = Stored()
    monkeypatch.setattr(catalogue_refresher.catalogue, "refresh", made.refresh)
    return made


async def heard(desk: Desk, payload: dict[str, Any]) -> None:
    desk.process.catalogue_refresher.on_broadcast(payload)
    async with asyncio.timeout(5):
        while desk.process.catalogue_refresher._refreshing:
            await asyncio.sleep(0)


@pytest.mark.requirement("TOOL-23")
async def test_catalogue_is_replaced_before_one_change_notice(desk: Desk, stored: Stored) -> None:
    told: list[int] = []
    desk.process.catalogue_refresher.on_change.append(
        lambda: told.append(current_snapshot.current().revision)
    )
    stored.revision = 7
    for revision in (5, 6, 7):
        desk.process.catalogue_refresher.on_broadcast({"revision": revision})
    await heard(desk, {"resync": True})
    assert told == [7]


async def test_current_revision_is_not_reloaded(desk: Desk, stored: Stored) -> None:
    await heard(desk, {"revision": current_snapshot.current().revision})
    assert stored.asked == 0


async def test_change_is_applied_after_database_outage(
    desk: Desk, stored: Stored, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catalogue_refresher, "REFRESH_RETRY_SECONDS", 0.0)
    stored.faults, stored.revision = 2, 9
    await heard(desk, {"revision": 9})
    assert current_snapshot.current().revision == 9
    assert caplog.text.count("cannot be read") == 2


async def test_close_does_not_wait_for_database(desk: Desk, stored: Stored) -> None:
    stored.faults, stored.revision = 10**6, 9
    desk.process.catalogue_refresher.on_broadcast({"revision": 9})
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (task,) = desk.process.catalogue_refresher._refreshing
    await desk.process.close()
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()


async def test_redis_outage_returns_503_and_leaves_nothing_in_flight(desk: Desk) -> None:
    async def away(*args: Any) -> None:
        raise StreamsUnavailable("away")

    desk.streams.sessions.add_subscription = away  # type: ignore[method-assign, assignment]
    answer = await desk.request("resources/subscribe", {"uri": "notes://all"})
    assert (desk.status, answer["error"]["code"]) == (503, -32603)
    assert not desk.session.in_flight


async def fill(desk: Desk) -> None:
    """Use up the storage quota of the desk's principal."""
    streams = desk.process.streams
    streams.log.limits = replace(streams.log.limits, kept_bytes=1)
    await streams.log.append(desk.session.id, "kept", b"x")


async def test_call_is_answered_despite_exhausted_quota(desk: Desk) -> None:
    await fill(desk)
    asked = Request(1, "tools/call", {"name": "chatty", "arguments": {}})
    found = await desk.process.dispatcher.request(desk.asked(), asked, b"{}")
    assert isinstance(found, Answered)
    assert found.status == 200
    assert orjson.loads(found.body)["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("what", ["asking call", "batch", "session"])
async def test_session_batch_and_question_are_refused_with_exhausted_quota(desk: Desk, what: str) -> None:
    await fill(desk)
    serve, principal = desk.process.dispatcher, desk.principal
    asked = Request(1, "tools/call", {"name": "asking", "arguments": {}})
    if what == "asking call":
        desk.session.capabilities = ClientCapabilities.parse({"roots": {}}, desk.session.version)
        await serve.notification(desk.session, Notification("notifications/initialized", {}), b"{}")
        found: Any = await serve.request(desk.asked(), asked, b"{}")
        assert found.status == 429
    elif what == "session":
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        catalogue = desk.asked().catalogue
        found = await serve.initialize(principal, catalogue, Request(1, "initialize", params), b"{}", "")
        assert found.status == 429
    else:
        batch: list[Any] = [call("chatty")]
        # The first one is answered because the quota is not yet checked; the known excess then refuses the
        # next.
        assert isinstance(await serve.batch(desk.asked(), batch), Answered)
        with pytest.raises(TooManyRequests):
            await serve.batch(desk.asked(), batch)
        return
    assert dict(found.headers)[b"retry-after"] == b"60"
    assert "Too much is kept for you" in orjson.loads(found.body)["error"]["message"]
