"""Extension methods as clients of each revision see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import orjson
import pytest
from django.core.exceptions import ObjectDoesNotExist

from mcp_app import Context, ToolError, extension, resource, tool
from mcp_app.auth.principal import Principal
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import current_snapshot, snapshot_loader
from mcp_app.protocol.capabilities import known
from mcp_app.protocol.versions import LEGACY, V2025_06_18, V2026_07_28
from mcp_app.streams.gateway import Streams
from tests.samples.published_schema import problems
from tests.unit.handlers.desk import Desk
from tests.unit.handlers.modern_desk import ModernDesk

SHELVES, SIGNS = "com.example/shelves", "com.example/signs"
DECLARED = {SHELVES: {"anything": True}}
MOVED = "notifications/shelves/moved"
STAFF = Principal(key="user:7", name="staff", permissions=frozenset({"library.burn"}))


@pytest.fixture
def burnt() -> list[int]:
    """Return the shelves that were burnt."""
    return []


@pytest.fixture(autouse=True)
def _extensions(burnt: list[int]) -> Iterator[None]:
    with registry.isolated():
        shelves = extension(SHELVES, settings={"most": 9}, notifications=[MOVED])
        signs = extension(SIGNS, versions=[V2026_07_28], declared_only=False)

        @shelves.method("shelves/move")
        async def move(ctx: Context, shelf: int, to: str = "cellar") -> dict[str, Any]:
            ctx.notify(MOVED, {"shelf": shelf})
            return {"moved": shelf, "to": to, "by": ctx.request_id}

        @shelves.method("shelves/burn", permission="library.burn")
        def burn(shelf: int) -> None:
            if shelf > 9:
                raise ObjectDoesNotExist("No such shelf.")
            if shelf > 8:
                raise ToolError("It does not burn.")
            burnt.append(shelf)

        @shelves.method("shelves/odd")
        async def odd(what: str) -> Any:
            return {"list": [1], "code": asyncio, "text": "text"}[what]

        @shelves.method("shelves/ask")
        async def ask(ctx: Context) -> dict[str, Any]:
            return {"roots": await ctx.aroots()}

        @signs.method("signs/list", cacheable=True)
        async def signs_list() -> dict[str, Any]:
            return {"signs": []}

        yield


@pytest.fixture
async def modern(streams: Streams) -> AsyncIterator[ModernDesk]:
    made = ModernDesk(streams)
    yield made
    await made.process.calls.close(0.01)


async def old(streams: Streams, version: str, capabilities: dict[str, Any] | None = None) -> Desk:
    made = Desk(streams)
    await made.open(version)
    made.session.raw_capabilities = known(capabilities or {})
    return made


def with_extensions(declared: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"roots": {}, "extensions": DECLARED if declared is None else declared}


@pytest.mark.requirement("CAP-05", "DLG-000-12")
async def test_served_extensions_are_announced_per_revision(modern: ModernDesk) -> None:
    told = (await modern.ask("server/discover", {}, {}))["result"]["capabilities"]
    assert told["extensions"] == {SHELVES: {"most": 9}, SIGNS: {}}
    assert "experimental" not in told
    assert problems(V2026_07_28, "ServerCapabilities", told) == []
    for version in LEGACY:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        told = (await modern.initialize(params))["result"]["capabilities"]
        assert told["experimental"] == told["extensions"] == {SHELVES: {"most": 9}}
        assert problems(version, "ServerCapabilities", told) == ["'extensions' is not published"]


@pytest.mark.requirement("CAP-05", "EXT-03")
async def test_method_is_served_to_client_declaring_its_extension(modern: ModernDesk) -> None:
    params = {"shelf": 3, "unknown": 1, "inputResponses": {}, "requestState": "x"}
    answer = await modern.ask("shelves/move", params, with_extensions())
    result = answer["result"]
    assert {name: result[name] for name in ("moved", "to", "by")} == {"moved": 3, "to": "cellar", "by": 1}
    assert result["resultType"] == "complete"
    assert "ttlMs" not in result
    assert "io.modelcontextprotocol/serverInfo" in result["_meta"]
    assert [orjson.loads(message)["method"] for message in modern.reply.take()] == [MOVED]


@pytest.mark.requirement("CAP-05", "EXT-03")
async def test_undeclared_extension_error_names_required_capability(modern: ModernDesk) -> None:
    for declared in ({}, {SIGNS: {}}, {SHELVES: True}):
        answer = await modern.ask("shelves/move", {"shelf": 3}, with_extensions(declared))
        assert answer["error"]["code"] == -32021
        assert answer["error"]["data"]["requiredCapabilities"] == {"extensions": {SHELVES: {}}}
        assert modern.status == 400
    # The experimental member is a place of older revisions only.
    refused = await modern.ask("shelves/move", {"shelf": 3}, {"experimental": DECLARED})
    assert refused["error"]["code"] == -32021


@pytest.mark.requirement("DLG-000-12")
@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("member", ["extensions", "experimental"])
async def test_older_client_declares_extension_in_either_member(
    streams: Streams, version: str, member: str
) -> None:
    desk = await old(streams, version, {member: DECLARED})
    assert (await desk.request("shelves/move", {"shelf": 3}))["result"]["moved"] == 3
    assert (await desk.request("signs/list"))["error"]["code"] == -32601
    undeclared = await old(streams, version)
    assert (await undeclared.request("shelves/move", {"shelf": 3}))["error"]["code"] == -32601


async def test_undeclared_extension_method_may_be_public_with_cache_hints(modern: ModernDesk) -> None:
    result = (await modern.ask("signs/list", {}, {}))["result"]
    assert (result["signs"], result["ttlMs"], result["cacheScope"]) == ([], 0, "private")


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("shelves/move", {}, -32602, "shelf: expected a value, got nothing"),
        ("shelves/move", {"shelf": "three"}, -32602, "shelf: expected integer, got 'three'"),
        ("shelves/odd", {"what": "list"}, -32603, "no object"),
        ("shelves/odd", {"what": "code"}, -32603, "no JSON form"),
        ("shelves/odd", {"what": "nothing"}, -32603, "incident"),
        ("shelves/ask", {}, -32602, "cannot ask"),
        ("shelves/burn", {"shelf": 1}, -32601, "Method not found"),
        ("shelves/other", {}, -32601, "Method not found"),
    ],
)
async def test_invalid_extension_request_returns_readable_error(
    modern: ModernDesk, method: str, params: dict[str, Any], code: int, words: str
) -> None:
    error = (await modern.ask(method, params, with_extensions()))["error"]
    assert error["code"] == code
    assert words in error["message"]


async def test_method_with_permission_works_for_permitted_caller_only(
    modern: ModernDesk, burnt: list[int]
) -> None:
    assert (await modern.ask("shelves/burn", {"shelf": 1}, with_extensions()))["error"]["code"] == -32601
    answer = await modern.ask("shelves/burn", {"shelf": 1}, with_extensions(), STAFF)
    assert answer["result"]["resultType"] == "complete"
    assert burnt == [1]


@pytest.mark.parametrize(("shelf", "words"), [(9, "It does not burn."), (10, "No such shelf.")])
async def test_error_of_method_reaches_permitted_caller(modern: ModernDesk, shelf: int, words: str) -> None:
    answer = await modern.ask("shelves/burn", {"shelf": shelf}, with_extensions(), STAFF)
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, words)


async def test_older_client_without_roots_gets_error_from_asking_method(streams: Streams) -> None:
    desk = await old(streams, V2025_06_18, {"extensions": DECLARED})
    error = (await desk.request("shelves/ask"))["error"]
    assert "did not declare roots" in error["message"]


async def test_notification_requires_declared_extension(modern: ModernDesk) -> None:
    told: list[Any] = []
    extension("com.example/loud", declared_only=False).method("loud/say")(_speaker(told))
    desk = ModernDesk(modern.streams)
    assert "result" in await desk.ask("loud/say", {}, with_extensions({}))
    assert not desk.reply.take()
    assert "No extension has" in told[0]
    await desk.process.calls.close(0.01)


@pytest.mark.requirement("EXT-01")
async def test_tool_serves_ui_page_or_text_by_declared_extension(streams: Streams) -> None:
    ui, page = "io.modelcontextprotocol/ui", "ui://weather/view.html"
    kind = "text/html;profile=mcp-app"
    extension(ui, settings={"mimeTypes": [kind]})

    @tool(meta={"ui": {"resourceUri": page}})
    def weather(ctx: Context) -> str:
        """Tells the weather."""
        return "See the view." if ctx.client.can(ui) else "It is sunny."

    @resource(page, mime_type=kind)
    def view() -> str:
        return "<p>sunny</p>"

    current_snapshot.replace(snapshot_loader.from_code())
    desk = ModernDesk(streams)
    (listed,) = (await desk.ask("tools/list", {}))["result"]["tools"]
    assert listed["_meta"]["ui"] == {"resourceUri": page}
    assert (await desk.ask("resources/read", {"uri": page}))["result"]["contents"][0]["mimeType"] == kind
    for declared, words in (({ui: {"mimeTypes": [kind]}}, "See the view."), ({}, "It is sunny.")):
        result = (await desk.ask("tools/call", {"name": "weather"}, with_extensions(declared)))["result"]
        assert result["content"][0]["text"] == words
    await desk.process.calls.close(0.01)


def _speaker(told: list[Any]) -> Any:
    async def say(ctx: Context) -> None:
        ctx.notify(MOVED, {"shelf": 1})
        try:
            ctx.notify("notifications/unknown/one")
        except ValueError as error:
            told.append(str(error))

    return say
