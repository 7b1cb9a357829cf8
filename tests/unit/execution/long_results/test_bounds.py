"""Bounds of tools: which results are cut."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app import Image, ToolResult, tool
from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.definitions.tool_limits import RESULT_BOUNDS
from mcp_app.catalogue.sources import CODE
from mcp_app.execution.calls.results import to_result
from mcp_app.execution.long_results.bounds import LongResult
from mcp_app.models import Tool
from tests.samples.media_samples import FOR_MODELS
from tests.unit.catalogue.entries import tool_entry

PNG = FOR_MODELS["image/png"]
LONG = "x" * 100_001


def is_cut(value: Any, returns: Any = Any, **options: Any) -> bool:
    def function() -> Any: ...

    function.__annotations__["return"] = returns
    return type(to_result(value, tool_entry(function, **options))) is LongResult


@pytest.mark.requirement("TOOL-26")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LONG, True),
        (LONG[1:], False),
        ("é" * 50_001, True),
        ("é" * 50_000, False),
        ([LONG], True),
        ({"a": LONG}, True),
        (ToolResult("a", structured={"a": LONG}), True),
        (ToolResult(LONG, is_error=True), True),
        (["a", Image(PNG + b"x" * 200_000)], False),
        ("", False),
        (None, False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_default_bound_counts_text_as_tokens(value: Any, *, expected: bool) -> None:
    assert is_cut(value) is expected


@pytest.mark.parametrize(
    ("options", "value", "expected"),
    [
        ({"max_result_tokens": 250}, "x" * 1001, True),
        ({"max_result_tokens": 250}, "x" * 1000, False),
        ({"max_result_tokens": 100_000}, LONG, False),
        ({"max_result_bytes": 1000}, "x" * 1001, True),
        ({"max_result_bytes": 1000, "max_result_tokens": 100_000}, "x" * 1001, True),
        ({"max_result_bytes": 1000}, Image(PNG + b"x" * 1000), True),
        ({"max_result_bytes": 100_000_000}, LONG, True),
    ],
)
def test_tool_bounds_take_precedence(options: dict[str, int], value: Any, *, expected: bool) -> None:
    assert is_cut(value, **options) is expected


def test_setting_of_zero_switches_cutting_off(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_RESULT_TOKENS": 0}
    assert not is_cut(LONG)
    assert not is_cut(LONG, max_result_tokens=250)


@pytest.mark.requirement("TOOL-28")
def test_result_with_an_output_schema_is_never_cut() -> None:
    assert not is_cut([LONG], list[str])
    assert not is_cut({"a": LONG}, dict[str, str])
    assert is_cut(ToolResult(LONG, is_error=True), dict[str, str])


@pytest.mark.parametrize(
    ("returns", "options"),
    [
        (Any, {"max_result_tokens": 249}),
        (Any, {"max_result_bytes": 999}),
        (Any, {"max_result_tokens": 0}),
        (list[str], {"max_result_tokens": 1000}),
        (dict[str, Any], {"max_result_bytes": 1000}),
    ],
)
def test_bound_without_effect_is_refused(returns: Any, options: dict[str, int]) -> None:
    def function() -> Any: ...

    function.__annotations__["return"] = returns
    with pytest.raises(DefinitionError, match="max_result_"):
        tool(**options)(function)


@pytest.mark.parametrize("bound", RESULT_BOUNDS)
def test_bound_of_a_tool_with_an_output_schema_gets_a_warning(bound: str) -> None:
    assert CODE.warnings(Tool(name="a", output_schema={"type": "object"}, **{bound: 5000})).keys() == {bound}
    assert not CODE.warnings(Tool(name="a", output_schema={"type": "object"}))
    assert not CODE.warnings(Tool(name="a", **{bound: 5000}))
