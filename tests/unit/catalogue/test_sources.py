"""Sources are resolved from rows; tool identities survive upgrades."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.lookup import SOURCES, choices, made_here, makers, named
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool
from mcp_app.models.catalogue import ENTRY_KINDS, StoredSource

CODE_TOOL: dict[str, Any] = {
    "pk": 7,
    "name": "add",
    "code_path": "shop.mcp.add",
    "definition_hash": "ab" * 32,
}


@pytest.mark.parametrize("kind", ENTRY_KINDS)
@pytest.mark.parametrize("stored", StoredSource.values)
def test_each_kind_and_stored_name_has_one_source(kind: type[Any], stored: str) -> None:
    found = [source for source in SOURCES if source.stored == stored and kind in source.kinds]
    # Requests become tools only.
    if stored == StoredSource.HTTP and kind is not Tool:
        assert not found
        return
    assert found == [named(kind, stored)]
    row = found[0].new(kind)
    assert (row.source, found[0].owns(row)) == (stored, True)


def test_source_choices_equal_database_choices() -> None:
    assert choices() == StoredSource.choices


@pytest.mark.parametrize("kind", [Tool, Prompt, Resource])
def test_own_fields_of_admin_source_start_with_key(kind: type[Any]) -> None:
    assert made_here(kind).own_fields[kind][0] == kind.KEY


def test_admin_source_cannot_edit_resource_templates() -> None:
    assert [source.stored for source in makers(ResourceTemplate)] == ["upstream"]
    assert made_here(ResourceTemplate).own_fields == {}


def test_tool_identities_are_stable_across_versions() -> None:
    tool = Tool(source="code", **CODE_TOOL)
    preset = Tool(source="admin", pk=8, name="five", preset_of=tool, fixed_arguments={"b": 5})
    assert identity_of(tool) == "829c2d036bbd9edfa029346e05aaea74ff98fb3c704101dde175f0a7fae13b2f"
    assert identity_of(preset) == "d15b5b65a0a1d6c9cdb10898057459cef14da89ead7bd423184e4b2027cd802b"


def test_own_fields_of_tool_are_part_of_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    class Requests(Source):
        stored = "requests"
        kinds = (Tool,)
        origin = unserved = ""
        own_fields = {Tool: ("name", "meta")}

    monkeypatch.setattr("mcp_app.catalogue.sources.lookup.SOURCES", [Requests()])
    one, other = (Tool(source="requests", **CODE_TOOL, meta={"path": path}) for path in ("/a", "/b"))
    assert identity_of(one) != identity_of(other)
