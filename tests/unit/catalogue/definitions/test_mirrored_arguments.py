"""Tool arguments mirrored as headers: their definition, and annotations rejected at registration."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import entry_builder
from mcp_app.catalogue.sources.preset.source import fixed
from mcp_app.models import StoredSource, Tool
from tests.unit.catalogue.entries import tool, tool_entry

Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
Count = Annotated[int, Field(json_schema_extra={"x-mcp-header": "Count"})]


def regional(region: Region, count: Count = 1, note: str = "") -> None:
    """Has two mirrored arguments."""


class Place(BaseModel):
    """A model, whose schema stands under ``$defs``."""

    region: Region


def in_model(place: Place) -> None:
    """Has an annotation that nobody may find."""


def perhaps(region: Region | None = None) -> None:
    """Has a mirrored argument of two types."""


def secret(api_key: Region) -> None:
    """Would show a secret to every proxy."""


def twice(region: Region, other: Region) -> None:
    """Has one header for two arguments."""


@pytest.mark.requirement("XMH-01")
def test_annotated_parameters_become_headers() -> None:
    entry = tool_entry(regional)
    assert [header.name for header in entry.param_headers] == ["Mcp-Param-Region", "Mcp-Param-Count"]
    assert entry.wire["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"
    assert tool_entry(secret_free).param_headers == ()


def secret_free(max_tokens: int) -> None:
    """Has no mirrored argument."""


@pytest.mark.requirement("XMH-06")
@pytest.mark.parametrize("function", [in_model, perhaps, secret, twice])
def test_invalid_header_annotation_is_rejected_at_registration(function: Any) -> None:
    with registry.isolated(), pytest.raises(DefinitionError, match=f"{function.__name__}.*x-mcp-header"):
        tool()(function)


@pytest.mark.requirement("XMH-06")
def test_custom_schema_header_annotation_is_validated() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    with registry.isolated(), pytest.raises(DefinitionError, match="needs the type"):
        tool(input_schema=schema)(written)


def written(**arguments: Any) -> None:
    """Takes what its schema says."""


def test_argument_fixed_by_preset_is_not_mirrored() -> None:
    with registry.isolated() as alone:
        tool()(regional)
        (definition,) = alone.tools.values()
    base = Tool(pk=1, position=1, source=StoredSource.CODE)
    row = Tool(
        pk=2,
        position=2,
        source=StoredSource.ADMIN,
        name="fixed",
        fixed_arguments={"region": "eu"},
        preset_of=base,
    )
    entry = entry_builder.tool(row, fixed(definition, base, row))
    assert [header.name for header in entry.param_headers] == ["Mcp-Param-Count"]
