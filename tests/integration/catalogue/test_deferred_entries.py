"""Tools of other servers are built when they are first needed, and equal tools that are built at once."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from types import FrameType
from typing import Any

import orjson
import pytest

import mcp_app
from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.snapshots import current_snapshot, snapshot_loader
from mcp_app.catalogue.snapshots.deferred import DeferredToolEntry
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.tool_search import ToolSearch
from mcp_app.catalogue.toolsets import services
from mcp_app.models import CatalogueRevision, Resource, Tool
from mcp_app.protocol.versions import SERVED
from tests.views import seen

pytestmark = pytest.mark.django_db

SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string", "x-mcp-header": "Query"}, "limit": {"type": "integer"}},
    "required": ["query"],
}
SECRETS = {"type": "object", "properties": {"pin": {"type": "string", "format": "password"}}}
BROKEN = {"type": "object", "properties": {"query": {"type": "nothing"}}}
OURS = mcp_app.__path__[0]
# Building one entry calls about 150 of our functions.
MOST_CALLS = 20
# Compiled schemas and functions have no equality.
COMPILED = {"function", "input", "output"}


def add(name: str, **values: Any) -> Tool:
    request = {"upstream": "other", "tool": name, "definition": "0" * 64, **values.pop("request", {})}
    row = Tool(name=name, source="upstream", request=request, **{"input_schema": SCHEMA, **values})
    row.save()
    announce()
    return row


def announce() -> None:
    revision, _ = CatalogueRevision.objects.get_or_create(pk=1)
    revision.number = revision.tools = revision.number + 1
    revision.save()


def loaded() -> dict[str, ToolEntry]:
    return current_snapshot.refresh_now(force=True).tools


def waits(entry: ToolEntry) -> bool:
    return isinstance(entry, DeferredToolEntry) and entry._values is not None


def members(entry: ToolEntry) -> dict[str, Any]:
    return {each.name: getattr(entry, each.name) for each in fields(ToolEntry) if each.name not in COMPILED}


def test_page_is_left_to_a_thread_until_it_is_built() -> None:
    add("search")
    view = seen(current_snapshot.refresh_now(force=True), EVERYTHING)
    (version, *_) = SERVED
    assert view.built_page("tools", version) is None
    assert view.built_page("prompts", version) == view.page("prompts", version)
    built = view.page("tools", version)
    assert view.built_page("tools", version) == built
    assert [tool["name"] for tool in orjson.loads(built)["tools"]] == ["search"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"title": "Find", "description": "Find records.", "icons": [{"src": "https://example.com/i.png"}]},
        {"tags": ["crm", "sales"], "permission": "mcp_app.view_tool", "position": 7},
        {"output_schema": {"type": "object"}, "annotations": {"readOnlyHint": True, "idempotentHint": True}},
        {"timeout_seconds": 2.5, "retries": 2, "queue": "slow", "priority": 3},
    ],
)
def test_deferred_entry_equals_an_entry_that_is_built_at_once(values: dict[str, Any]) -> None:
    row = add("search", **values)
    entry = loaded()["search"]
    assert waits(entry)
    built = snapshot_loader._entry(Tool.objects.get(pk=row.pk))
    assert type(built) is ToolEntry
    assert members(entry) == members(built)
    assert not waits(entry)
    assert entry.check({"query": "tea"}) is None
    assert entry.check({"limit": 1}) == built.check({"limit": 1}) != ""
    assert entry.check_output([]) == built.check_output([])
    assert members(replace(entry, timeout=1.0)) == {**members(built), "timeout": 1.0}


def test_members_that_every_snapshot_reads_build_nothing() -> None:
    add("search", tags=["crm"], permission="mcp_app.view_tool")
    held = current_snapshot.refresh_now(force=True)
    entry = held.tools["search"]
    assert held.sources == {"upstream"}
    assert not held.max_running
    assert not held.queues
    assert (entry.tags, entry.permission, entry.source) == (("crm",), "mcp_app.view_tool", "upstream")
    assert seen(held, frozenset()).page("tools", SERVED[0]) == b'{"tools":[]}'
    assert waits(entry)
    assert not hasattr(entry, "uri")
    assert waits(entry)


@pytest.mark.parametrize(
    "values",
    [
        {"max_running": 2},
        {"calls_per_minute": 5},
        {"background": True},
        {"needs_approval": True, "approval_minutes": 5, "four_eyes": True},
        {"max_result_tokens": 500, "max_result_bytes": 2_000, "cost": 4},
        {"meta": {"tags": ["crm"]}},
        {"input_schema": SECRETS},
        {"request": {"ui": "ui://page"}},
    ],
)
def test_tool_with_something_that_snapshots_need_is_built_at_once(values: dict[str, Any]) -> None:
    Resource.objects.create(
        uri="ui://here", name="page", source="upstream",
        request={"upstream": "other", "resource": "ui://page", "definition": "0" * 64},
    )  # fmt: skip
    row = add("search", **values)
    entry = loaded()["search"]
    assert type(entry) is ToolEntry
    built = snapshot_loader._entry(Tool.objects.get(pk=row.pk))
    assert members(entry) == {**members(built), "revision": entry.revision}


def test_unchanged_entry_is_reused_whether_it_was_built_or_not() -> None:
    add("first")
    add("second")
    before = loaded()
    assert before["first"].wire["name"] == "first"
    add("third")
    after = current_snapshot.refresh_now().tools
    assert after is not before
    assert after["first"] is before["first"]
    assert after["second"] is before["second"]
    assert waits(after["second"])


def test_changed_row_has_a_new_entry() -> None:
    row = add("search", description="Old.")
    before = loaded()["search"]
    Tool.objects.filter(pk=row.pk).update(description="New.")
    announce()
    after = current_snapshot.refresh_now().tools["search"]
    assert (before.wire["description"], after.wire["description"]) == ("Old.", "New.")


def test_unusable_tool_is_not_offered_when_it_is_first_needed(caplog: pytest.LogCaptureFixture) -> None:
    add("broken", input_schema=BROKEN)
    add("search")
    with caplog.at_level(logging.WARNING, "mcp.catalogue"):
        held = current_snapshot.refresh_now(force=True)
        assert not caplog.records
        view = seen(held, EVERYTHING)
        listed = orjson.loads(view.page("tools", SERVED[0]))["tools"]
        assert view.tool("broken") is None
        assert view.tool("search") is not None
    assert [each["name"] for each in listed] == ["search"]
    (record,) = caplog.records
    assert "'broken' is not offered" in record.getMessage()
    assert [each.name for each in ToolSearch("x", held.tools.values(), {}).index.find("query")] == ["search"]


def test_toolset_with_an_unusable_tool_offers_its_other_tools() -> None:
    add("broken", input_schema=BROKEN)
    add("search")
    named = [{"kind": "tool", "key": name, "title": "T"} for name in ("broken", "search")]
    services.save_toolset(actor=None, slug="crm", title="CRM", audience="everyone", members=named)
    (toolset,) = current_snapshot.refresh_now(force=True).toolsets.values()
    assert not toolset.problem
    view = seen(toolset.catalogue, EVERYTHING)
    listed = orjson.loads(view.page("tools", SERVED[0]))["tools"]
    assert [(each["name"], each["title"]) for each in listed] == [("search", "T")]
    assert view.tool("broken") is None


@pytest.mark.parametrize("searches", [False, True])
def test_toolset_builds_no_tool_before_it_is_needed(searches: bool) -> None:
    add("search")
    services.save_toolset(
        actor=None, slug="crm", title="CRM", audience="everyone", searches=searches,
        rules=[{"source": "upstream"}],
    )  # fmt: skip
    for _ in range(2):
        (toolset,) = current_snapshot.refresh_now().toolsets.values()
        assert "search" in toolset.catalogue.tools
        add(f"tool-{Tool.objects.count()}")
    assert waits(current_snapshot.current().tools["search"])


def test_list_of_a_searched_toolset_changes_with_its_members_and_with_the_search() -> None:
    add("search")
    values: dict[str, Any] = {"title": "CRM", "audience": "everyone", "rules": [{"prefix": "search"}]}
    row = services.save_toolset(actor=None, slug="crm", searches=True, **values)

    def revision() -> int:
        (toolset,) = current_snapshot.refresh_now().toolsets.values()
        return int(toolset.catalogue.revisions["tools"])

    first = revision()
    add("other")
    assert revision() == first
    add("search-more")
    second = revision()
    assert second > first
    services.save_toolset(actor=None, toolset=row, searches=False)
    assert revision() > second


def counted(run: Callable[[], Any]) -> int:
    """Return the number of calls of our functions."""
    calls = 0

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def test_start_calls_few_functions_for_each_tool_of_another_server() -> None:
    add("search")
    loaded()
    one = counted(loaded)
    for number in range(100):
        add(f"tool-{number}")
    added = counted(loaded) - one
    assert added <= 100 * MOST_CALLS
