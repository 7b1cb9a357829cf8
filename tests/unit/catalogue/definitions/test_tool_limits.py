"""Tool limits have one definition from which all users derive them."""

from __future__ import annotations

from dataclasses import fields

from mcp_app.admin.entries.catalogue import ToolAdmin
from mcp_app.api.entry_fields import ToolInput, ToolShown
from mcp_app.catalogue.changes import row_checks
from mcp_app.catalogue.changes.revisions import state_of
from mcp_app.catalogue.definitions.definition import ToolDefinition
from mcp_app.catalogue.definitions.tool_definitions import ToolKeywords, ToolOptions
from mcp_app.catalogue.definitions.tool_limits import COLUMNS, POSITIVE, SWITCHES
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.sources.code import CODE
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.catalogue.transfer.fields import names_of
from mcp_app.models import Tool


def test_every_limit_is_decorator_option_and_typed_keyword() -> None:
    options = {option.name for option in fields(ToolOptions)}
    assert set(COLUMNS) < options
    assert options == ToolKeywords.__annotations__.keys()


def test_definitions_and_entries_have_every_limit_and_no_dict() -> None:
    for kind in (ToolDefinition, ToolEntry):
        assert set(COLUMNS) <= {field.name for field in fields(kind)}
        assert "__dict__" not in dir(object.__new__(kind))


def test_every_limit_is_editable_in_admin() -> None:
    assert set(COLUMNS.values()) <= CODE.editable(Tool)
    assert set(COLUMNS.values()) <= PRESET.editable(Tool)


def test_form_api_file_and_history_have_every_limit() -> None:
    form = {*ToolAdmin.limit_fields, *ToolAdmin.approval_fields}
    file = set(names_of(Tool, CODE))
    history = state_of(CODE.new(Tool)).keys()
    for place in (form, file, history, set(ToolShown.Meta.fields), set(ToolInput.Meta.fields)):
        assert set(COLUMNS.values()) <= place


def test_switches_are_boolean_limits() -> None:
    assert SWITCHES == ("background", "needs_approval", "four_eyes")


def test_every_limit_has_a_check_of_its_rows() -> None:
    assert row_checks._LIMIT_CHECKS.keys() == COLUMNS.keys()


def test_optional_whole_numbers_are_checked_as_positive() -> None:
    assert (
        *("calls_per_minute", "max_running", "approval_minutes", "max_result_tokens", "max_result_bytes"),
        "cost",
    ) == POSITIVE
