"""External schemas are rejected before they can consume time."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcp_app.catalogue.schemas.schema_bounds import compile_foreign
from mcp_app.catalogue.schemas.validation import SchemaError

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"}},
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}


def doubling(levels: int) -> dict[str, Any]:
    """Build definitions that each reference the next one twice."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "integer"}}
    for level in range(levels):
        following = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"anyOf": [following, following]}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


def nested(keyword: str, levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {keyword: schema}
    return schema


def leftover(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


RECURSIVE_ALTERNATIVES = {
    "$defs": {
        "n": {
            "anyOf": [
                {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["y"]},
                {"properties": {"x": {"$ref": "#/$defs/n"}}, "required": ["z"]},
            ]
        }
    },
    "$ref": "#/$defs/n",
}


@pytest.mark.requirement("SCHEMA-03", "SCHEMA-04")
@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ([], "must be a JSON object"),
        ({"x": float}, "is not JSON"),
        ({"$schema": "https://example.com/mine"}, "not supported"),
        ({"$schema": 7}, "not supported"),
        ({"$ref": "https://example.com/s"}, "leads outside"),
        ({"properties": {"default": {"$ref": "file:///etc/passwd"}}}, "leads outside"),
        ({"properties": {"a": {"$id": "https://example.com/"}}}, "'$id' below the root"),
        ({"$ref": "#/missing"}, "not a usable JSON Schema"),
        ({"type": "nothing"}, "not a usable JSON Schema"),
        ({"$ref": "#"}, "refers to itself"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        (
            {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
            "refers to itself",
        ),
        ({"$anchor": "me", "not": {"$ref": "#me"}}, "refers to itself"),
        (doubling(30), "multiplies the work"),
        (RECURSIVE_ALTERNATIVES, "multiplies the work"),
        (leftover(28), "multiplies the work"),
        (nested("not", 80), "levels deep"),
        ({"properties": {f"p{n}": {} for n in range(2001)}}, "subschemas"),
        ({"enum": list(range(1001))}, "'enum' has 1001 values"),
        ({"description": "x" * 300_000}, "bytes"),
        ({"pattern": "a" * 501}, "more than 500 characters"),
        ({"patternProperties": {"a" * 501: {}}}, "more than 500 characters"),
        ({"pattern": "(?=lookahead)"}, "not a usable JSON Schema"),
        ({"pattern": "(a{1000}){1000}"}, "not a usable JSON Schema"),
    ],
)
def test_dangerous_schema_is_rejected_quickly_with_reason(schema: Any, complaint: str) -> None:
    started = time.perf_counter()
    with pytest.raises(SchemaError) as caught:
        compile_foreign(schema)
    assert complaint in str(caught.value)
    assert time.perf_counter() - started < 1


@pytest.mark.requirement("SCHEMA-04")
@pytest.mark.parametrize(
    ("schema", "instance"),
    [
        ({"pattern": "(a+)+$"}, "a" * 100_000 + "!"),
        ({"pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}, "a" * 100_000),
        (TREE, None),
        (doubling(5), 1),
        (leftover(8), {"b": 1}),
        ({"uniqueItems": True}, list(range(10_000))),
    ],
)
def test_accepted_schema_validates_worst_instance_quickly(schema: dict[str, Any], instance: Any) -> None:
    if instance is None:
        instance = {}
        for _ in range(60):
            instance = {"left": instance, "right": {}}
    validator = compile_foreign(schema)
    started = time.perf_counter()
    validator.is_valid(instance)
    assert time.perf_counter() - started < 0.5
