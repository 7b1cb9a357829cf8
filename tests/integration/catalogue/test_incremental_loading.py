"""A catalogue load builds only the entries whose rows, code or settings changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from mcp_app import tool
from mcp_app.auth.principal import EVERYTHING
from mcp_app.catalogue.changes import services
from mcp_app.catalogue.changes.mirroring import mirror
from mcp_app.catalogue.snapshots import current_snapshot
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.snapshot import Catalogue
from mcp_app.catalogue.sources.http.source import HTTP
from mcp_app.models import CatalogueRevision, Prompt, Resource, StoredSource, Tool
from tests.views import seen

pytestmark = pytest.mark.django_db
Validators = dict[str, Any]


def numbered(number: int) -> Callable[..., int]:
    def function(text: str) -> int:
        return number

    function.__name__ = function.__qualname__ = f"t{number}"
    return function


def offer(count: int) -> list[str]:
    """Serve that many tools from code and return their names."""
    for number in range(count):
        tool(numbered(number))
    names = [f"t{number}" for number in range(count)]
    # Mirroring 1,200 tools would take most of the test's time.
    Tool.objects.bulk_create(Tool(name=name, source=StoredSource.CODE) for name in names)
    current_snapshot.refresh_now()
    return names


def found(held: Catalogue, name: str) -> ToolEntry:
    entry = seen(held, EVERYTHING).tool(name)
    assert entry is not None
    return entry


def edit(name: str, **values: Any) -> None:
    services.update_entry(entry=Tool.objects.get(name=name), actor=None, **values)


def rebuilt(names: list[str], change: Callable[[], Any]) -> list[str]:
    """Return the names of the tools whose entries or validators a change built again."""
    before = {name: found(current_snapshot.current(), name) for name in names}
    change()
    held = current_snapshot.refresh_now()
    changed = [name for name in names if found(held, name) is not before[name]]
    assert changed == [name for name in names if found(held, name).input is not before[name].input]
    return changed


def test_one_edit_among_1200_tools_builds_one_entry() -> None:
    names = offer(1_200)
    assert rebuilt(names, lambda: edit("t700", title="Renamed")) == ["t700"]
    assert found(current_snapshot.current(), "t700").wire["title"] == "Renamed"


@pytest.mark.parametrize(
    "values",
    [
        {"title": "T"},
        {"description": "D"},
        {"permission": "auth.view_user"},
        {"position": 5},
        {"meta": {"a": 1}},
        {"icons": [{"src": "https://example.com/i.png"}]},
        {"timeout_seconds": 3.0},
        {"calls_per_minute": 2},
        {"background": True},
        {"needs_approval": True},
        {"max_running": 4},
        {"queue": "slow"},
    ],
    ids=lambda values: next(iter(values)),
)
def test_editing_any_override_builds_the_entry(values: dict[str, Any]) -> None:
    assert rebuilt(offer(3), lambda: edit("t1", **values)) == ["t1"]


def test_editing_a_tool_builds_its_presets() -> None:
    names = offer(3)
    mirror()
    base = Tool.objects.get(name="t1")
    services.save_tool_preset(actor=None, name="fixed", preset_of=base, fixed_arguments={"text": "x"})
    current_snapshot.refresh_now()
    assert rebuilt([*names, "fixed"], lambda: edit("t1", description="New")) == ["t1", "fixed"]
    assert found(current_snapshot.current(), "fixed").wire["description"] == "New"
    assert rebuilt([*names, "fixed"], lambda: edit("fixed", title="Preset")) == ["fixed"]
    services.set_enabled(entries=[base], enabled=False, actor=None)
    assert current_snapshot.refreshed_view(EVERYTHING).tool("fixed") is None
    services.set_enabled(entries=[base], enabled=True, actor=None)
    assert found(current_snapshot.refresh_now(), "fixed").wire["title"] == "Preset"


def test_row_written_without_the_services_is_built_with_the_next_revision() -> None:
    names = offer(3)

    def write() -> None:
        Tool.objects.filter(name="t2").update(title="By hand")
        edit("t0", title="By a person")

    assert rebuilt(names, write) == ["t0", "t2"]


def test_changed_settings_build_every_entry(settings: Any) -> None:
    names = offer(3)

    def change() -> None:
        settings.MCP = {**settings.MCP, "TOOL_TIMEOUT_SECONDS": 7.0}
        edit("t0", title="T")

    assert rebuilt(names, change) == names
    assert found(current_snapshot.current(), "t1").timeout == 7.0


def test_changed_code_builds_every_entry(registered: Any) -> None:
    names = offer(3)

    def reload() -> None:
        del registered.tools["t1"]
        tool(name="t1", description="Newer code.")(numbered(1))
        edit("t0", title="T")

    assert rebuilt(names, reload) == names
    assert found(current_snapshot.current(), "t1").wire["description"] == "Newer code."


def test_approval_entry_has_the_revision_of_each_snapshot() -> None:
    offer(3)
    edit("t1", needs_approval=True)
    edit("t2", title="T")
    held = current_snapshot.refresh_now()
    assert found(held, "t1").revision == held.revision == CatalogueRevision.objects.get().number
    edit("t2", title="U")
    later = current_snapshot.refresh_now()
    assert found(later, "t1").revision == later.revision > held.revision
    assert found(later, "t1").input is found(held, "t1").input


def test_removed_entries_are_not_cached() -> None:
    offer(3)
    text = services.save_resource(actor=None, uri="notes://new", name="new", text="a")
    prompt = services.save_prompt(actor=None, name="hello", template="Hello")
    current_snapshot.refresh_now()
    services.set_enabled(entries=[Tool.objects.get(name="t1")], enabled=False, actor=None)
    services.delete_entries(entries=[text, prompt], actor=None)
    built = current_snapshot.refresh_now().built.by_kind
    for kind in (Tool, Prompt, Resource):
        assert set(built[kind]) == set(kind.objects.filter(enabled=True).values_list("pk", flat=True))


def test_changed_text_of_a_resource_is_served() -> None:
    text = services.save_resource(actor=None, uri="notes://new", name="new", text="a")
    current_snapshot.refresh_now()
    for changed in ("b", "c"):
        services.save_resource(actor=None, entry=text, text=changed)
        read = current_snapshot.refreshed_view(EVERYTHING).resource("notes://new")
        assert read is not None
        assert read[0].static is not None
        assert read[0].static("notes://new")[0]["text"] == changed


def test_load_after_an_edit_reads_one_row_in_full() -> None:
    offer(3)
    edit("t1", title="T")
    with CaptureQueriesContext(connection) as queries:
        current_snapshot.refresh_now()
    # The revision before and after, the digests of four kinds, and the edited row.
    assert len(queries) == 7


def test_changed_schema_of_an_http_tool_builds_it_and_its_presets() -> None:
    parameters = [{"argument": "id", "in": "query"}]
    request = {"origin": "https://api.example.com", "method": "GET", "path": "/", "parameters": parameters}
    row = services.save_entry(
        kind=Tool, actor=None, source=HTTP, name="order", request=request,
        input_schema={"type": "object", "properties": {"id": {"type": "string"}}},
    )  # fmt: skip
    services.save_tool_preset(actor=None, name="preset", preset_of=row, fixed_arguments={})
    names = ["order", "preset"]
    current_snapshot.refresh_now()
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    assert rebuilt(names, lambda: services.save_entry(kind=Tool, actor=None, entry=row, input_schema=schema))
    assert rebuilt(
        names, lambda: services.save_entry(kind=Tool, actor=None, entry=row, output_schema={"type": "object"})
    )
    for name in names:
        wire = found(current_snapshot.current(), name).wire
        assert (wire["inputSchema"], wire["outputSchema"]) == (schema, {"type": "object"})
