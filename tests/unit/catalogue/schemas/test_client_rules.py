"""One table of the schemas that known clients reject, reported by checks, doctor and admin forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from mcp_app import tool
from mcp_app.catalogue.changes.row_checks import check
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.schemas.client_rules import RULES, portable_names, refusals
from mcp_app.catalogue.schemas.portable import portable
from mcp_app.checks import schemas
from mcp_app.doctor import Installation, Level, code
from mcp_app.models import StoredSource, Tool

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "checks.md"
TEXT = {"type": "string"}
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


# (name, input schema, rejections as (rule, place))
CASES: tuple[tuple[str, dict[str, Any], tuple[tuple[str, str], ...]], ...] = (
    ("plain", {**_object(a=TEXT), "additionalProperties": False, "minProperties": 1}, ()),
    ("with.dot", _object(), (("tool-name", "with.dot"),)),
    ("x" * 65, _object(), (("tool-name", "x" * 65),)),
    ("x" * 64, _object(), ()),
    ("t", {**_object(), "anyOf": [{"required": []}]}, (("root-choice", "'anyOf'"),)),
    (
        "t",
        {**_object(), "allOf": [{}], "oneOf": [{}]},
        (("root-choice", "'oneOf'"), ("root-choice", "'allOf'")),
    ),
    ("t", {**_object(), "$ref": "#/$defs/A", "$defs": {"A": {}}}, (("root-choice", "'$ref'"),)),
    ("t", _object(a={"anyOf": [TEXT, {"type": "null"}]}), ()),
    ("t", {"type": "object", "additionalProperties": False}, (("root-properties", "the root"),)),
    ("t", _object(größe=TEXT), (("property-name", "'größe'"),)),
    ("t", _object(**{"": TEXT, "a b": TEXT}), (("property-name", "''"), ("property-name", "'a b'"))),
    ("t", _object(a=_object(**{"x[y]": TEXT})), (("property-name", "'x[y]'"),)),
    ("t", _object(**{"n" * 65: TEXT}), (("property-name", f"'{'n' * 65}'"),)),
    ("t", _object(**{"a.b-c_1": TEXT}), ()),
    ("t", _object(a={"type": ["string", "null"]}), (("types", "properties/a"),)),
    ("t", _object(a={"enum": ["x", 1]}), (("mixed-enum", "properties/a"),)),
    ("t", _object(a={"enum": [1, 2.5]}), ()),
    ("t", _object(a={"type": "array"}), (("items", "properties/a"),)),
    ("t", _object(a={"type": "array", "prefixItems": [TEXT]}), (("items", "properties/a"),)),
    ("t", _object(a=True), (("boolean", "properties/a"),)),
    ("t", _object(a={"type": "array", "items": False}), (("boolean", "properties/a/items"),)),
    ("t", _object(a={"type": "object", "additionalProperties": True}), ()),
    ("t", _object(a={"type": "object", "patternProperties": {"^x": TEXT}}), (("patterns", "properties/a"),)),
    ("t", {**_object(a={"$ref": "#/$defs/T"}), "$defs": {"T": TREE}}, (("recursion", "#/$defs/T"),)),
    ("t", _object(a={"type": "array", "items": {"$ref": "#"}}), (("recursion", "#"),)),
    (
        "t",
        {
            **_object(a={"$ref": "#/$defs/A"}),
            "$defs": {"A": _object(b={"$ref": "#/$defs/B"}), "B": _object(a={"$ref": "#/$defs/A"})},
        },
        (("recursion", "#/$defs/A"), ("recursion", "#/$defs/B")),
    ),
    ("t", {**_object(a={"$ref": "#/$defs/A"}), "$defs": {"A": TEXT}}, ()),
    # Data may look like a schema.
    ("t", _object(a={"type": "object", "default": {"type": ["x"], "items": True}}), ()),
)  # fmt: skip


@pytest.mark.requirement("SCHEMA-07")
@pytest.mark.parametrize(("name", "schema", "expected"), CASES)
def test_rejected_schema_is_reported_at_its_place(name: str, schema: Any, expected: Any) -> None:
    found = refusals({"name": name, "inputSchema": schema})
    assert [(each.rule.id, place) for each in found for place in each.places] == list(expected)


@pytest.mark.requirement("SCHEMA-07")
def test_every_rule_has_case_clients_and_remedy() -> None:
    assert {rule.id for rule in RULES} == {rule for _, _, expected in CASES for rule, _ in expected}
    assert all(rule.clients and rule.remedy and rule.problem for rule in RULES)


def test_generated_schema_breaks_only_unfixable_rules() -> None:
    unmended = {"tool-name", "property-name", "patterns", "recursion"}
    for name, schema, _ in CASES:
        if not {"anyOf", "allOf"} & schema.keys():
            left = {each.rule.id for each in refusals({"name": name, "inputSchema": portable(schema)})}
            assert left <= unmended, schema


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["page", "a.b-c"], {}),
        (["filter[state]", "page[size]"], {"filter[state]": "filter_state", "page[size]": "page_size"}),
        (["größe", "日本"], {"größe": "groe", "日本": "argument"}),
        (["a[b]", "a_b", "a b"], {"a[b]": "a_b_2", "a b": "a_b_3"}),
        (["$top", "", "n" * 70], {"$top": "top", "": "argument", "n" * 70: "n" * 60}),
    ],
)
def test_portable_name_replaces_rejected_name(names: list[str], expected: dict[str, str]) -> None:
    assert portable_names(names) == expected


def _define_refused() -> None:
    @tool(input_schema={**_object(a={}), "oneOf": [{"required": ["a"]}]})
    def choosy(**arguments: Any) -> str:
        """Choose."""
        return ""


@pytest.mark.requirement("SCHEMA-07")
@pytest.mark.parametrize(("strict", "number"), [(False, "mcp_app.W035"), (True, "mcp_app.E036")])
def test_check_and_doctor_name_tool_clients_and_remedy(settings: Any, strict: bool, number: str) -> None:
    settings.MCP = {**settings.MCP, "STRICT_SCHEMAS": strict}
    with registry.isolated():
        _define_refused()
        (found,) = schemas.clients_take_all_tools()
        (told,) = code.clients(Installation())
    expected = (
        "choosy: a choice or a reference at the root of the arguments ('oneOf'). "
        "Refused by Claude's and OpenAI's API (also by Claude Code, Codex, Copilot)."
    )
    assert (found.id, found.msg) == (number, expected)
    assert (told.level, told.text, told.remedy) == (Level.WARNING, expected, found.hint)
    assert "in properties" in str(found.hint)


@pytest.mark.django_db
@pytest.mark.requirement("SCHEMA-07")
def test_strict_schemas_reject_enabled_unportable_preset(settings: Any) -> None:
    base = Tool.objects.create(name="choosy", source=StoredSource.CODE, input_schema=_object(a=TEXT))
    preset = Tool(name="dotted.name", preset_of=base, source=StoredSource.ADMIN, fixed_arguments={"a": "x"})
    check(preset)
    settings.MCP = {**settings.MCP, "STRICT_SCHEMAS": True}
    with pytest.raises(ValidationError, match="Refused by OpenAI's API"):
        check(preset)
    preset.enabled = False
    check(preset)
