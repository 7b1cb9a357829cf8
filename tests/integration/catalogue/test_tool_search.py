"""A toolset that is searched instead of listed: ``find_tools``, and calls of the found tools."""
# ruff: noqa: F811 - fixtures of another module

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_app import tool
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.changes.services import update_entry
from mcp_app.catalogue.search import misses
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.tool_search import FIND, NAMES, READ, WRITE
from mcp_app.database.queries import aquery
from mcp_app.execution.calls.results import META
from mcp_app.models import SearchMiss, Tool
from tests.integration.catalogue.test_toolset_access import (
    Caller,
    keys,  # noqa: F401 - a fixture
    named,
    server,  # noqa: F401 - a fixture
    store,
)
from tests.unit.transports.streamable_http.asgi import Server

pytestmark = pytest.mark.django_db(transaction=True)
ERAS = ("legacy", "modern")


def add_numbers(first: int, second: int) -> str:
    """Add two numbers."""
    return str(first + second)


def erase_ledger(ledger: str) -> str:
    """Erase a ledger."""
    return f"erased {ledger}"


@pytest.fixture
def searched(keys: Any) -> None:
    """Store a toolset that is searched."""
    tool(read_only=True)(add_numbers)
    tool(destructive=True)(erase_ledger)
    mirror()
    members = [
        *named("tool", "add_numbers", "guarded"),
        {**named("tool", "erase_ledger")[0], "keywords": "wipe"},
    ]
    store("large", members, searches=True)
    current_snapshot.refresh_now()


async def caller(server: Server, era: str, key: str | None) -> Caller:
    found = Caller(server, era, key, "/mcp/large")
    await found.open()
    return found


async def call(caller: Caller, tool_name: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the result of a call, or its error."""
    exchange = await caller.send("tools/call", {"name": tool_name, "arguments": arguments})
    # A slow answer comes on a stream.
    answer = exchange.json if exchange.body.startswith(b"{") else exchange.messages[-1]
    found: dict[str, Any] = answer.get("result") or answer["error"]
    return found


def text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def found(caller: Caller, query: str) -> dict[str, Any]:
    """Return the tools that a query finds, by name."""
    result = await call(caller, FIND, query=query)
    return {each["name"]: each for each in json.loads(text(result))}


@pytest.mark.usefixtures("searched")
@pytest.mark.requirement("TSET-09")
@pytest.mark.parametrize("era", ERAS)
async def test_list_has_three_tools_that_find_and_call_the_members(
    era: str,
    server: Server,
    keys: dict[str, str | None],
) -> None:
    client = await caller(server, era, None)
    listed = (await client.send("tools/list")).json["result"]["tools"]
    assert [each["name"] for each in listed] == list(NAMES)
    shown = await found(client, "sum of numbers")
    assert shown["add_numbers"]["callWith"] == READ
    assert shown["add_numbers"]["inputSchema"]["required"] == ["first", "second"]
    assert (await found(client, "wipe everything"))["erase_ledger"]["callWith"] == WRITE
    numbers = {"first": 1, "second": 2}
    for name in (READ, WRITE):
        assert text(await call(client, name, name="add_numbers", arguments=numbers)) == "3"
    assert text(await call(client, "add_numbers", **numbers)) == "3"
    assert text(await call(client, WRITE, name="erase_ledger", arguments={"ledger": "A"})) == "erased A"


@pytest.mark.usefixtures("searched")
@pytest.mark.requirement("TSET-10")
@pytest.mark.parametrize("era", ERAS)
async def test_inner_tool_decides_on_permission_schema_and_limits(
    era: str,
    server: Server,
    keys: dict[str, str | None],
) -> None:
    stranger, member = [await caller(server, era, keys[role]) for role in ("stranger", "member")]
    assert "guarded" not in await found(stranger, "guarded")
    assert "guarded" in await found(member, "guarded")
    for name in (READ, WRITE):
        # A tool without the permission is answered like one that does not exist.
        hidden, unknown = [await call(stranger, name, name=each) for each in ("guarded", "unknown")]
        assert hidden["isError"]
        assert text(hidden).replace("guarded", "unknown") == text(unknown)
    assert text(await call(member, WRITE, name="guarded", arguments={})) == "guarded"
    refused = await call(stranger, READ, name="add_numbers", arguments={"first": "x", "second": 2})
    assert refused["isError"]
    assert refused["_meta"][META] == "invalid_arguments"
    assert "first" in text(refused)

    def limit() -> None:
        update_entry(entry=Tool.objects.get(name="add_numbers"), actor=None, calls_per_minute=1)

    await aquery(limit)
    await current_snapshot.refresh()
    numbers = {"name": "add_numbers", "arguments": {"first": 1, "second": 2}}
    outcomes = [await call(member, READ, **numbers) for _ in range(2)]
    assert [each.get("data", {}).get("refusal") for each in outcomes] == [None, "rate_limited"]
    assert outcomes[1]["data"]["limit"] == "tool:add_numbers"


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (READ, {"name": "erase_ledger", "arguments": {"ledger": "A"}}, WRITE),
        (READ, {"name": "unknown"}, FIND),
        (WRITE, {"name": "unknown"}, FIND),
        (WRITE, {"name": FIND, "arguments": {"query": "x"}}, FIND),
        (WRITE, {"name": WRITE, "arguments": {"name": "erase_ledger"}}, FIND),
        (WRITE, {"name": "second"}, FIND),
        (READ, {"name": "add_numbers", "arguments": []}, "arguments"),
        (READ, {}, "name"),
        (FIND, {"query": ""}, "query"),
        (FIND, {"query": "x", "limit": 21}, "limit"),
    ],
)
async def test_call_that_cannot_be_made_says_why(
    era: str,
    name: str,
    arguments: dict[str, Any],
    words: str,
    server: Server,
) -> None:
    client = await caller(server, era, None)
    result = await call(client, name, **arguments)
    assert result["isError"]
    assert words in text(result)


@pytest.mark.usefixtures("searched")
@pytest.mark.requirement("TSET-11")
async def test_queries_without_a_fitting_tool_are_counted(
    server: Server,
) -> None:
    client = await caller(server, "modern", None)
    for query in ("bake a cake", "Bake  a cake", "add two numbers", "play the violin"):
        await call(client, FIND, query=query)
    rows = await aquery(misses.of, "large")
    assert [(row.query, row.count) for row in rows] == [("bake a cake", 2), ("play the violin", 1)]
    await aquery(lambda: [misses.record("large", f"query {number}") for number in range(210)])
    assert await SearchMiss.objects.acount() == misses.MAX_PER_TOOLSET


@pytest.mark.usefixtures("searched")
@pytest.mark.parametrize("name", NAMES)
async def test_tools_of_the_search_do_not_exist_elsewhere(name: str, server: Server) -> None:
    client = Caller(server, "modern", None, "/mcp/open")
    await client.open()
    assert (await call(client, name, query="x"))["code"] == -32602
