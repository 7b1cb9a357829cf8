"""Generated schemas are rewritten to the form all clients accept, with the same valid values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from mcp_app import expose
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.schemas.portable import LOOKAROUND, portable
from mcp_app.catalogue.schemas.subschemas import walk
from mcp_app.catalogue.schemas.validation import compile_schema
from mcp_app.catalogue.sources.preset.arguments import without_arguments
from mcp_app.protocol import downlevel
from mcp_app.protocol.versions import SERVED, V2026_07_28
from tests.integration.exposing.hostile import VALUES
from tests.samples.portable_tools import EverythingViewSet, define_every_kind
from tests.samples.published_schema import problems

NUMBER, TEXT, NULL = {"type": "number"}, {"type": "string"}, {"type": "null"}
SAMPLES = (*VALUES, [1, "a", 2], ["a", 1], [None, None], {"k": "m"}, {"k": "n"}, {"x": 1}, "aa", 1.0, [1, 2])

CASES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (
        {"type": ["string", "null"], "maxLength": 1, "title": "T", "default": None},
        {"title": "T", "default": None, "anyOf": [{"type": "string", "maxLength": 1}, NULL]},
    ),
    ({"type": ["string"], "minLength": 2}, {"type": "string", "minLength": 2}),
    (
        {"type": ["string", "number", "null"], "pattern": "^[0-9]+$", "minimum": 2, "format": "decimal"},
        {
            "anyOf": [
                {"type": "string", "pattern": "^[0-9]+$", "format": "decimal"},
                {"type": "number", "minimum": 2},
                NULL,
            ]
        },
    ),
    (
        {"type": ["number", "null"], "format": "double"},
        {"anyOf": [{"type": "number", "format": "double"}, NULL]},
    ),
    (
        {"type": ["array", "object", "boolean"], "items": TEXT, "required": ["x"]},
        {
            "anyOf": [
                {"type": "array", "items": TEXT},
                {"type": "object", "required": ["x"]},
                {"type": "boolean"},
            ]
        },
    ),
    (
        {"type": ["string", "null"], "anyOf": [NULL, {"const": "a"}]},
        {"anyOf": [NULL, {"type": "string", "enum": ["a"]}], "allOf": [{"anyOf": [TEXT, NULL]}]},
    ),
    ({"type": ["string", "null"], "enum": ["a", 1]}, {"type": "string", "enum": ["a"]}),
    ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"enum": [1, 0.5]}, {"type": "number", "enum": [1, 0.5]}),
    (
        {"enum": ["a", 1, None, True]},
        {
            "anyOf": [
                {"type": "string", "enum": ["a"]},
                {"type": "integer", "enum": [1]},
                NULL,
                {"type": "boolean", "enum": [True]},
            ]
        },
    ),
    ({"type": "integer", "enum": ["a"]}, {"type": "integer", "enum": ["a"]}),
    ({"const": "x", "type": "string"}, {"type": "string", "enum": ["x"]}),
    ({"const": None}, NULL),
    ({"const": 3}, {"type": "integer", "enum": [3]}),
    (
        {"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2},
        {"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2, "items": NUMBER},
    ),
    (
        {"type": "array", "prefixItems": [NUMBER, TEXT, NUMBER], "maxItems": 3},
        {
            "type": "array",
            "prefixItems": [NUMBER, TEXT, NUMBER],
            "maxItems": 3,
            "items": {"anyOf": [NUMBER, TEXT]},
        },
    ),
    ({"type": "array", "prefixItems": [NUMBER]}, {"type": "array", "prefixItems": [NUMBER], "items": {}}),
    ({"type": "array"}, {"type": "array", "items": {}}),
    (
        {"type": "object", "properties": {"a": True, "b": False}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {}, "b": {"not": {}}}, "additionalProperties": False},
    ),
    (
        {
            "discriminator": {"propertyName": "k"},
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": "m"}}, "required": ["k"]},
                {"type": "object", "properties": {"k": {"const": "n"}}, "required": ["k"]},
            ],
        },
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"k": {"type": "string", "enum": ["m"]}},
                    "required": ["k"],
                },
                {
                    "type": "object",
                    "properties": {"k": {"type": "string", "enum": ["n"]}},
                    "required": ["k"],
                },
            ]
        },
    ),
    # Members here would be visible to a branch that omits them.
    (
        {"type": ["object", "null"], "unevaluatedProperties": False},
        {"type": ["object", "null"], "unevaluatedProperties": False},
    ),
)  # fmt: skip


@pytest.mark.requirement("SCHEMA-06")
@pytest.mark.parametrize(("made", "expected"), CASES, ids=str)
def test_generated_schema_is_rewritten_to_equivalent_schema(
    made: dict[str, Any], expected: dict[str, Any]
) -> None:
    root = {"type": "object", "properties": {"v": made}, "required": ["v"]}
    rewritten = portable(root)
    assert rewritten["properties"]["v"] == expected
    assert portable(rewritten) == rewritten
    before, after = compile_schema(root), compile_schema(rewritten)
    for value in SAMPLES:
        assert before.is_valid({"v": value}) is after.is_valid({"v": value}), value


@pytest.mark.requirement("SCHEMA-06")
@pytest.mark.parametrize(
    "keyword", ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
)
@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (Decimal("90.0"), 90),
        (Decimal("0.5"), 0.5),
        (1.5, 1.5),
        (3, 3),
        (Decimal("Infinity"), None),
        (float("-inf"), None),
    ],
    ids=str,
)
def test_bound_is_finite_json_number(keyword: str, bound: Any, expected: Any) -> None:
    found = portable({"type": "object", "properties": {"v": {"type": "number", keyword: bound}}})
    bounds = found["properties"]["v"]
    assert bounds.get(keyword) == expected
    assert not isinstance(bounds.get(keyword), Decimal)
    compile_schema(found)


@pytest.mark.requirement("SCHEMA-06")
def test_recursive_type_has_members_at_root() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}
    found = portable({"type": "object", "$ref": "#/$defs/T", "$defs": {"T": tree}})
    assert found == {**tree, "$defs": {"T": tree}}


@pytest.mark.requirement("SCHEMA-06")
@pytest.mark.parametrize("coerced", [True, False])
def test_every_generated_schema_is_portable(settings: Any, coerced: bool) -> None:
    settings.REST_FRAMEWORK = {"COERCE_DECIMAL_TO_STRING": coerced}
    with registry.isolated():
        define_every_kind()
        wires = [definition.read().wire for definition in registry.tools.values()]
    assert len(wires) == 6
    listed = [*wires, {**wires[0], "inputSchema": without_arguments(wires[1]["inputSchema"], {"point": 1})}]
    for wire in listed:
        for member in {"inputSchema", "outputSchema"} & wire.keys():
            assert list(_unportable(wire[member])) == [], wire["name"]
            compile_schema(wire[member])
        for version in SERVED:
            assert problems(version, "Tool", downlevel.definition("tool", wire, version)) == []


def _unportable(root: dict[str, Any]) -> Iterator[str]:
    if "properties" not in root or "$ref" in root:
        yield "root"
    rules: dict[str, Callable[[dict[str, Any]], bool]] = {
        "types": lambda node: isinstance(node.get("type"), list),
        "items": lambda node: node.get("type") == "array" and "items" not in node,
        "const": lambda node: "const" in node or "oneOf" in node or "discriminator" in node,
        "enum": lambda node: "enum" in node and "type" not in node,
        "look-around": lambda node: bool(LOOKAROUND.search(node.get("pattern", ""))),
        "bound": lambda node: any(
            not isinstance(node[word], int | float) for word in ("minimum", "maximum") if word in node
        ),
    }
    for path, node in walk(root):
        if isinstance(node, bool):
            if path[-1] != "additionalProperties":
                yield f"boolean at {path}"
            continue
        yield from (f"{name} at {path}: {node}" for name, broken in rules.items() if broken(node))


@pytest.mark.requirement("SCHEMA-06")
def test_rewritten_schema_rejects_unknown_and_invalid_arguments() -> None:
    with registry.isolated():
        define_every_kind()
        schemas = {name: each.read().wire["inputSchema"] for name, each in registry.tools.items()}
    assert compile_schema(schemas["nothing"]).is_valid({})
    assert not compile_schema(schemas["nothing"]).is_valid({"x": 1})
    task = compile_schema(schemas["task"])
    assert task.is_valid({"point": [1, "a"], "mode": "x"})
    for wrong in ([1], [1, 2], ["a", 1], [1, "a", 1], None):
        assert not task.is_valid({"point": wrong}), wrong
    assert task.explain({"point": [1, "a"], "mode": "y"}) == "mode: expected one of 'x', got 'y'"


def test_boolean_property_of_custom_schema_is_object_before_2026_07_28() -> None:
    """TypeScript clients of older revisions reject a whole tool list because of one boolean schema."""
    schema = {"type": "object", "properties": {"x": True, "y": False, "z": {"type": "string"}}}
    wire = {"name": "odd", "inputSchema": schema, "outputSchema": schema}
    for version in SERVED:
        found = downlevel.definition("tool", wire, version)
        expected = {"x": True, "y": False} if version >= V2026_07_28 else {"x": {}, "y": {"not": {}}}
        for member in {"inputSchema", "outputSchema"} & found.keys():
            assert found[member]["properties"] == {**expected, "z": {"type": "string"}}
        assert problems(version, "Tool", found) == []
    assert schema["properties"]["x"] is True


def test_bounded_decimals_of_serializer_become_numbers(settings: Any) -> None:
    """Serve a project that sends decimals as numbers and bounds them by decimals."""
    settings.REST_FRAMEWORK = {"COERCE_DECIMAL_TO_STRING": False}
    with registry.isolated():
        expose.viewset(EverythingViewSet, actions=["create"], prefix="everything")
        members = registry.tools["everything_create"].read().wire["inputSchema"]["properties"]
    price = {"type": "number", "format": "double", "minimum": -90, "maximum": 90}
    assert members["price"] == {"anyOf": [price, NULL]}
    assert members["most"] == {"type": "number", "format": "double"}
    assert members["score"] == {"type": "number", "format": "double", "minimum": 1.5}
