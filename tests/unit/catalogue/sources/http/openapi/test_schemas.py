"""Schemas become JSON Schema 2020-12 in the form that every known client accepts (INT-22)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.schemas.schema_bounds import compile_foreign
from mcp_app.catalogue.sources.http.openapi.faults import Unconvertible
from mcp_app.catalogue.sources.http.openapi.names import member_alias
from mcp_app.catalogue.sources.http.openapi.schemas import Converted, Schemas, definition_name
from tests.unit.catalogue.sources.http.openapi.documents import document

NULL = {"type": "null"}
COMPONENTS: dict[str, Any] = {
    "Size": {"type": "integer"},
    "Node": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}},
    "a b": {"type": "string"},
}

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("3.0", {"type": "string"}, {"type": "string"}),
    ("3.0", {"type": "string", "nullable": True}, {"anyOf": [{"type": "string"}, NULL]}),
    ("3.0", {"type": "string", "nullable": True, "enum": ["a"]},
     {"anyOf": [{"type": "string", "enum": ["a"]}, NULL]}),
    ("3.0", {"$ref": "#/components/schemas/Size", "nullable": True, "description": "d"},
     {"description": "d", "anyOf": [{"$ref": "#/$defs/Size"}, NULL]}),
    ("3.0", {"allOf": [{"$ref": "#/components/schemas/Size"}], "nullable": True},
     {"anyOf": [{"$ref": "#/$defs/Size"}, NULL]}),
    ("3.0", {"allOf": [{"$ref": "#/components/schemas/Size"}], "description": "d"},
     {"$ref": "#/$defs/Size", "description": "d"}),
    ("3.1", {"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, NULL]}),
    ("3.1", {"const": 7}, {"type": "integer", "enum": [7]}),
    ("3.1", True, {}),
    ("3.0", {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
     {"type": "integer", "exclusiveMinimum": 1}),
    ("3.0", {"type": "integer", "minimum": 1, "exclusiveMinimum": False}, {"type": "integer", "minimum": 1}),
    ("3.1", {"type": "integer", "exclusiveMinimum": 1}, {"type": "integer", "exclusiveMinimum": 1}),
    ("3.0", {"type": "integer", "maximum": 2**70, "minimum": -(2**63) - 1}, {"type": "integer"}),
    ("3.0", {"type": "string", "minLength": "3"}, {"type": "string"}),
    ("3.0", {"type": "number", "multipleOf": 0}, {"type": "number"}),
    ("3.0", {"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^a+$"}),
    ("3.0", {"type": "string", "pattern": "^(?!x)"}, {"type": "string"}),
    ("3.0", {"type": "string", "pattern": "(["}, {"type": "string"}),
    ("3.0", {"type": "string", "pattern": "(a)\\1"}, {"type": "string"}),
    ("3.0", {"type": "string", "enum": [str(n) for n in range(1_001)]}, {"type": "string"}),
    ("3.0", {"type": "string", "enum": ["a", "a", True, 1]}, {"type": "string", "enum": ["a", "true", "1"]}),
    ("3.0", {"enum": [1, True, 1.0]},
     {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "boolean", "enum": [True]}]}),
    ("3.0", {"type": "string", "format": "binary"}, {"type": "string", "contentEncoding": "base64"}),
    ("3.0", {"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    ("3.0", {"type": "integer", "format": "int64"}, {"type": "integer"}),
    ("3.0", {"type": "any"}, {}),
    ("3.0", {"type": "array"}, {"type": "array", "items": {}}),
    ("3.0", {"items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
    ("3.0", {"type": "string", "example": 1, "xml": {}, "externalDocs": {}, "x-a": 1, "deprecated": True},
     {"type": "string"}),
    ("3.0", {"oneOf": [{"type": "string"}, {"type": "integer"}], "discriminator": {"propertyName": "a"}},
     {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    ("3.0", {"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]},
     {"anyOf": [{"type": "string"}], "allOf": [{"anyOf": [{"type": "string"}]}]}),
    ("3.0", {"allOf": []}, {}),
    ("3.0", {"properties": {"id": {"readOnly": True, "type": "string"}, "a": {"type": "string"}},
             "required": ["id", "a", "a"]},
     {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    ("3.0", {"type": "object", "required": True}, {"type": "object"}),
    ("3.0", {"type": "object", "properties": {"a": None}}, {"type": "object", "properties": {"a": {}}}),
    ("3.0", {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
     {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, NULL]}}),
    ("3.1", {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
     {"type": "object", "additionalProperties": True}),
    ("3.1", {"type": "object", "if": {}, "not": {"type": "object"}, "unevaluatedProperties": False},
     {"type": "object"}),
    ("3.1", {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
     {"type": "array", "prefixItems": [{"type": "string"}], "items": {"not": {}}}),
    ("3.0", {"title": "Name of it", "type": "string"}, {"type": "string", "description": "Name of it"}),
    ("3.0", {"type": "string", "description": "a\u0000b\u001b"}, {"type": "string", "description": "ab"}),
]  # fmt: skip


def convert(schema: Any, version: str = "3.0", *, for_results: bool = False) -> Converted:
    found = document(version=f"{version}.0", components={"schemas": COMPONENTS})
    return Schemas(found, for_results=for_results).convert(schema, "#/s")


@pytest.mark.requirement("INT-22")
@pytest.mark.parametrize(("version", "schema", "expected"), CASES)
def test_schema_becomes_2020_12_in_the_portable_form(version: str, schema: Any, expected: Any) -> None:
    assert convert(schema, version).schema == expected


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"pattern": "(?=x)"}, "The pattern is checked by the API only"),
        ({"enum": [*range(1_001)]}, "list of 1001 values"),
        ({"type": "any"}, "The type 'any' does not exist"),
        ({"not": {}}, "'not' is checked by the API only"),
        ({"minLength": -1}, "'minLength' is not a usable number"),
    ],
)
def test_dropped_rules_are_noted_with_their_place(schema: Any, note: str) -> None:
    (found,) = convert({"properties": {"a/b": schema}}).notes
    assert note in found.text
    assert found.pointer == "#/s/properties/a~1b"


@pytest.mark.requirement("INT-22")
def test_results_leave_out_write_only_members() -> None:
    schema = {"properties": {"secret": {"writeOnly": True}, "id": {"readOnly": True}}}
    assert convert(schema, for_results=True).schema["properties"] == {"id": {}}


@pytest.mark.requirement("INT-22")
def test_only_reachable_definitions_are_used_and_cycles_stay_references() -> None:
    found = document(components={"schemas": COMPONENTS})
    schemas = Schemas(found)
    node = schemas.convert({"$ref": "#/components/schemas/Node"}, "#/s")
    assert schemas.reached(node.targets) == ("#/components/schemas/Node",)
    assert schemas.component("#/components/schemas/Node").schema["properties"]["next"] == {
        "$ref": "#/$defs/Node"
    }
    assert schemas.is_recursive(node.targets)
    assert not schemas.is_recursive(("#/components/schemas/Size",))


def test_references_to_any_place_have_their_own_definition() -> None:
    names = [
        convert({"$ref": target}).schema["$ref"]
        for target in (
            "#/components/schemas/a b",
            "#/components/schemas/Node/properties/next",
            "#/paths/~1x/get",
        )
    ]
    assert len(set(names)) == 3
    assert all(name.removeprefix("#/$defs/").isascii() and " " not in name for name in names)


@pytest.mark.requirement("INT-20")
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#/components/schemas/Nothing"}, "leads nowhere"),
        ({"$ref": "https://elsewhere.example/x.json#/a"}, "leads nowhere"),
        ({"properties": {"a": "text"}}, "not a schema"),
        ({"items": {"anyOf": [1]}}, "not a schema"),
    ],
)
def test_unusable_schema_names_its_place(schema: Any, reason: str) -> None:
    with pytest.raises(Unconvertible, match=reason) as error:
        convert(schema)
    assert error.value.pointer.startswith("#/s")


def test_refused_member_names_get_aliases_that_map_back() -> None:
    found = convert({"type": "object", "properties": {"@type": {"type": "string"}}, "required": ["@type"]})
    alias = member_alias("@type")
    assert found.schema["properties"] == {alias: {"type": "string"}}
    assert found.schema["required"] == [alias]
    assert found.aliases == {alias: "@type"}


def test_deep_schemas_are_cut_with_a_note() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        schema = {"type": "object", "properties": {"a": schema}}
    found = convert(schema)
    assert "not described" in found.notes[0].text
    compile_foreign({"type": "object", "properties": {"a": found.schema}})


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
KEYWORDS = st.sampled_from(
    ["type", "enum", "const", "items", "properties", "required", "anyOf", "allOf", "oneOf", "not", "minimum",
     "exclusiveMinimum", "maxLength", "pattern", "format", "nullable", "default", "additionalProperties",
     "patternProperties", "description", "multipleOf", "uniqueItems", "prefixItems", "$ref"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["string", "integer", "array", "object", "null", "#/components/schemas/Node", "(", "a"]
)
HOSTILE = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS | WORDS, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.requirement("INT-20", "INT-22")
@example("3.0", {"$ref": ""})
@example("3.1", {"enum": [None, []]})
@given(st.sampled_from(["3.0", "3.1"]), st.dictionaries(KEYWORDS, HOSTILE, max_size=6))
def test_any_schema_is_converted_to_a_valid_portable_one_or_refused(version: str, schema: Any) -> None:
    found = document(version=f"{version}.0", components={"schemas": COMPONENTS})
    schemas = Schemas(found)
    try:
        made = schemas.convert(schema, "#/s")
        reached = schemas.reached(made.targets)
    except Unconvertible:
        return
    definitions = {definition_name(pointer): schemas.component(pointer).schema for pointer in reached}
    whole = {"type": "object", "properties": {"a": made.schema}, "$defs": definitions}
    compile_foreign(whole)
    assert {each.rule.id for each in refusals({"name": "a", "inputSchema": whole})} <= {"recursion"}
