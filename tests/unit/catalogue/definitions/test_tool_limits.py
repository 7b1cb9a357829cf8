"""A limit of a tool is named once: what has limits takes them from there."""

from __future__ import annotations

from dataclasses import fields

from mcp_app.catalogue.definitions.definition import ToolDefinition
from mcp_app.catalogue.definitions.tool_definitions import ToolKeywords, ToolOptions
from mcp_app.catalogue.definitions.tool_limits import COLUMNS, SWITCHES
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.models import Tool


def test_every_limit_is_an_option_of_the_decorator_and_every_option_a_keyword() -> None:
    options = {option.name for option in fields(ToolOptions)}
    assert set(COLUMNS) < options
    assert options == ToolKeywords.__annotations__.keys()


def test_definitions_and_entries_have_every_limit_and_no_room_for_anything_else() -> None:
    for kind in (ToolDefinition, ToolEntry):
        assert set(COLUMNS) <= {field.name for field in fields(kind)}
        assert "__dict__" not in dir(object.__new__(kind))


def test_an_administrator_may_set_every_limit_of_any_tool() -> None:
    assert set(COLUMNS.values()) <= CODE.editable(Tool)
    assert set(COLUMNS.values()) <= PRESET.editable(Tool)


def test_switches_are_the_limits_that_are_on_or_off() -> None:
    assert SWITCHES == ("background", "needs_approval", "four_eyes")
