"""Each request keeps one view of the catalogue; the next request gets the newest."""

from __future__ import annotations

import asyncio

import orjson

from mcp_app import Context
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.snapshot import EMPTY, KINDS, Catalogue
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.execution.calls.reply import Answered
from mcp_app.handlers import lifecycle
from mcp_app.protocol.messages.jsonrpc import Request
from mcp_app.protocol.messages.server import Server
from mcp_app.sessions.exchange import Exchange
from mcp_app.sessions.session import LiveSession
from tests.clients.envelopes import envelope_of
from tests.unit.catalogue.entries import resource_entry, tool_entry
from tests.unit.handlers.desk import Desk, offer

WITHDRAWN = "notes://withdrawn"
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tests", "version": "1"},
}


def notes() -> str:
    """Notes."""
    return "notes"


def put_in_use(revision: int, *tools: str) -> None:
    entries = [tool_entry(notes, number, name=name) for number, name in enumerate(tools, start=1)]
    current_snapshot.replace(
        Catalogue(revision=revision, revisions=dict.fromkeys(KINDS, revision), tools=entries)
    )


async def listed(desk: Desk) -> list[str]:
    answer = await desk.request("tools/list")
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_running_call_keeps_snapshot_and_later_request_gets_new_one(desk: Desk) -> None:
    begun, changed = asyncio.Event(), asyncio.Event()

    async def reading(ctx: Context) -> str:
        """Read a resource after the catalogue changed."""
        begun.set()
        await changed.wait()
        assert ctx.may_read(WITHDRAWN)
        text: str = (await ctx.aread_resource(WITHDRAWN))["contents"][0]["text"]
        return text

    offer(tools=[tool_entry(reading)], resources=[resource_entry(notes, WITHDRAWN)])
    running = asyncio.create_task(desk.request("tools/call", {"name": "reading"}))
    async with asyncio.timeout(5):
        await begun.wait()
    put_in_use(2, "other")
    later = await desk.request("resources/read", {"uri": WITHDRAWN}, 2)
    changed.set()
    answer = await running
    assert later["error"]["code"] == -32002
    assert answer["result"]["content"][0]["text"] == "notes"
    assert await listed(desk) == ["other"]


async def test_request_uses_catalogue_view_from_its_start(desk: Desk) -> None:
    offer(tools=[tool_entry(notes)])
    asked = desk.asked()
    put_in_use(2)
    outcome = await desk.process.dispatcher.request(asked, Request(1, "tools/call", {"name": "notes"}), b"")
    assert isinstance(outcome, Answered)
    assert orjson.loads(outcome.body)["result"]["content"][0]["text"] == "notes"


async def test_view_is_never_older_than_announced_change(desk: Desk) -> None:
    put_in_use(2, "old")
    seen: list[int] = []
    assert await listed(desk) == ["old"]
    desk.process.catalogue_refresher.on_change.append(lambda: seen.append(desk.asked().catalogue.revision))
    put_in_use(3, "new")
    desk.process.catalogue_refresher._run_callbacks()
    assert seen == [3]
    assert await listed(desk) == ["new"]


async def test_session_and_request_keep_path_of_their_server(desk: Desk) -> None:
    """A session of the default server stores no path, so rows of older versions keep their meaning."""
    other = Server("tests", "1", title="Other", path="/mcp/other")
    own = desk.process.views.server
    for server, path in ((own, None), (other, "/mcp/other")):
        view = CatalogueView(EMPTY, frozenset(), server)
        session, answer = await lifecycle.initialize(
            desk.process, desk.principal, view, INITIALIZE, "127.0.0.1", None, "2025-11-25"
        )
        assert orjson.loads(answer)["serverInfo"] == server.info
        assert session.stored().get("path") == path
        assert LiveSession(session.id, session.stored()).path == server.path
        exchange = Exchange(envelope_of(), desk.principal.key, server)
        assert exchange.stored().get("path") == path
        result = orjson.loads(exchange.answer(Request(1, "tools/list", {}), {"tools": []}))["result"]
        assert result["_meta"] == server.meta
