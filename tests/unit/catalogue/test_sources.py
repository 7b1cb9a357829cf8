"""Sources are found by the rows that name them; identities of tools outlive an upgrade."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.registry import SOURCES, choices, made_here, named
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
def test_rows_of_each_kind_and_stored_name_have_one_source(kind: type[Any], stored: str) -> None:
    found = [source for source in SOURCES if source.stored == stored and kind in source.kinds]
    assert found == [named(kind, stored)]
    row = found[0].new(kind)
    assert (row.source, found[0].owns(row)) == (stored, True)


def test_labels_are_those_that_the_database_knows() -> None:
    assert choices() == StoredSource.choices


@pytest.mark.parametrize("kind", [Tool, Prompt, Resource])
def test_entries_made_here_begin_with_their_key(kind: type[Any]) -> None:
    assert made_here(kind).own_fields[kind][0] == kind.KEY


def test_nobody_makes_resource_templates_here() -> None:
    assert made_here(ResourceTemplate).editable(ResourceTemplate) == frozenset()


def test_identities_are_those_that_waiting_calls_were_stored_with() -> None:
    tool = Tool(source="code", **CODE_TOOL)
    preset = Tool(source="admin", pk=8, name="five", preset_of=tool, fixed_arguments={"b": 5})
    assert identity_of(tool) == "829c2d036bbd9edfa029346e05aaea74ff98fb3c704101dde175f0a7fae13b2f"
    assert identity_of(preset) == "d15b5b65a0a1d6c9cdb10898057459cef14da89ead7bd423184e4b2027cd802b"


def test_own_fields_of_a_tool_are_part_of_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    class Requests(Source):
        stored = "requests"
        kinds = (Tool,)
        origin = unserved = ""
        own_fields = {Tool: ("name", "meta")}

    monkeypatch.setattr("mcp_app.catalogue.sources.registry.SOURCES", [Requests()])
    one, other = (Tool(source="requests", **CODE_TOOL, meta={"path": path}) for path in ("/a", "/b"))
    assert identity_of(one) != identity_of(other)
