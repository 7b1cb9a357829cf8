"""Conversion of OpenAPI schemas to JSON Schema that accepts the same values."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.exposure.viewsets.openapi import Converter
from mcp_app.catalogue.schemas.validation import compile_schema


def _converted(schema: dict[str, Any], **components: Any) -> dict[str, Any]:
    converter = Converter(components)
    found: dict[str, Any] = converter.convert(schema)
    return {**found, "$defs": converter.definitions} if converter.definitions else found


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "string", "nullable": True}, ["a", None], [1]),
        ({"type": "string", "enum": ["a"], "nullable": True}, ["a", None], ["b"]),
        ({"type": ["string", "null"], "enum": ["a"]}, ["a", None], ["b"]),
        ({"oneOf": [{}, {"type": "null"}]}, [None, 1, {}], []),
        ({"oneOf": [{"enum": ["a"]}, {"enum": [""]}, {"enum": [None]}]}, ["a", "", None], ["b"]),
        ({"allOf": [{"$ref": "#/components/schemas/Kind"}], "nullable": True}, ["x", None], ["y"]),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, [1], [0]),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": False}, [0], [-1]),
        ({"type": "integer", "exclusiveMaximum": 5}, [4], [5]),
        ({"type": "string", "format": "decimal", "pattern": r"^\d+$"}, ["1", 1.5], ["a", None]),
        ({"type": ["string", "null"], "format": "decimal"}, ["1", 1.5, None], [True]),
        ({"type": "string", "pattern": "^(?!x)"}, ["x"], [1]),
        ({"type": "array", "items": {"type": "integer", "nullable": True}}, [[1, None]], [["a"]]),
    ],
)
def test_converted_schema_accepts_same_values_as_openapi(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    validator = compile_schema(_converted(schema, Kind={"type": "string", "enum": ["x"]}))
    assert [value for value in good if not validator.is_valid(value)] == []
    assert [value for value in bad if validator.is_valid(value)] == []


def test_read_only_members_and_annotations_are_removed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "name": {"type": "string", "example": "x", "x-order": 1, "writeOnly": True},
        },
        "required": ["id"],
    }
    assert _converted(schema) == {"type": "object", "properties": {"name": {"type": "string"}}}


def test_reachable_definitions_are_kept_and_cycles_terminate() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#/components/schemas/Tree"}}}
    found = _converted({"$ref": "#/components/schemas/Tree"}, Tree=tree, Other={"type": "null"})
    assert found == {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"type": "object", "properties": {"below": {"$ref": "#/$defs/Tree"}}}},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": {}},
        {"oneOf": [{"type": "object", "properties": {}}]},
        {"type": "object", "properties": {}, "allOf": [{}]},
    ],
)
def test_schema_of_non_plain_object_has_no_members(schema: dict[str, Any]) -> None:
    assert Converter({}).members(schema) is None
