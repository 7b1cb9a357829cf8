"""Structured output of return types, and its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest
from django.db.models import QuerySet
from pydantic import BaseModel

from mcp_app import Audio, File, Image, Link, ToolResult
from mcp_app.catalogue.definitions import output_schemas


class Report(BaseModel):
    rows: int


@dataclass
class Size:
    width: int


class Row(TypedDict):
    id: int


class Node(BaseModel):
    children: list[Node]


@pytest.mark.parametrize(
    "hint",
    [
        str, None, type(None), Any, bytes, str | None, Literal["a", "b"], Image, list[Image],
        list[Image | str], tuple[Image, str], Image | None, Audio, File, Link, ToolResult, int | str,
        QuerySet,
    ],
)  # fmt: skip
def test_text_and_content_types_have_no_output_schema(hint: Any) -> None:
    assert output_schemas.describe(hint) == output_schemas.Output(None)


@pytest.mark.requirement("TOOL-18")
@pytest.mark.parametrize(
    ("hint", "member"),
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[Report], {"type": "array", "items": {"$ref": "#/$defs/Report"}}),
    ],
)
def test_non_object_types_are_wrapped_in_object_schema(hint: Any, member: dict[str, Any]) -> None:
    output = output_schemas.describe(hint)
    assert output.wraps
    assert output.schema is not None
    assert output.schema["type"] == "object"
    assert output.schema["properties"] == {"result": member}
    assert output.schema["required"] == ["result"]


@pytest.mark.requirement("TOOL-18")
@pytest.mark.parametrize("hint", [Report, Size, Row, dict[str, int], dict, Node])
def test_object_types_keep_schema_with_object_at_root(hint: Any) -> None:
    output = output_schemas.describe(hint)
    assert not output.wraps
    assert output.schema is not None
    assert output.schema["type"] == "object"
