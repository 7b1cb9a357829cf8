"""The forms in which clients send tools to their models."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_app.catalogue.schemas.client_forms import ClientForm, client_forms

TEXT = {"type": "string"}
NULL = {"type": "null"}


def forms(schema: dict[str, Any], name: str = "get_order") -> dict[str, ClientForm]:
    wire = {"name": name, "description": "Get an order.", "inputSchema": {"type": "object", **schema}}
    return {each.client: each for each in client_forms(wire)}


def test_each_client_has_its_own_envelope() -> None:
    schema = {"properties": {"id": TEXT}, "required": ["id"]}
    found = forms(schema)
    head = {"name": "get_order", "description": "Get an order."}
    plain = {"type": "object", **schema}
    assert found["Anthropic"].tool == {**head, "input_schema": plain}
    assert found["OpenAI"].tool == {"type": "function", **head, "parameters": plain, "strict": False}
    strict = {**plain, "additionalProperties": False}
    assert found["OpenAI strict"].tool == {"type": "function", **head, "parameters": strict, "strict": True}
    assert found["Gemini"].tool == {
        **head,
        "parameters": {"type": "OBJECT", "properties": {"id": {"type": "STRING"}}, "required": ["id"]},
    }
    assert not any(each.problems for each in found.values())


def test_strict_mode_requires_all_members_and_closes_objects() -> None:
    inner = {"type": "object", "properties": {"b": {**TEXT, "default": "x"}}}
    found = forms({"properties": {"a": inner}})["OpenAI strict"]
    closed = {"type": "object", "properties": {"b": TEXT}, "additionalProperties": False, "required": ["b"]}
    assert found.tool is not None
    assert found.tool["parameters"]["properties"]["a"] == closed
    assert "defaults are left out" in found.changes
    assert any("optional members: a" in change for change in found.changes)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object"}, "arbitrary members"),
        ({"type": "object", "additionalProperties": TEXT}, "arbitrary members"),
        ({"allOf": [TEXT]}, "'allOf'"),
        ({}, "needs a type"),
    ],
)
def test_schema_that_strict_mode_cannot_express_has_a_reason(schema: dict[str, Any], problem: str) -> None:
    found = forms({"properties": {"a": schema}})
    assert found["OpenAI strict"].tool is None
    assert problem in " ".join(found["OpenAI strict"].problems)
    assert found["OpenAI"].tool is not None
    assert not found["OpenAI"].problems


def test_gemini_gets_inlined_references_and_nullable_values() -> None:
    part = {"anyOf": [{"$ref": "#/$defs/Size"}, NULL], "description": "d"}
    choice = {"anyOf": [TEXT, {"type": "integer"}]}
    schema = {"properties": {"a": part, "b": choice, "c": {"type": "integer", "enum": [1]}}}
    tool = forms({**schema, "$defs": {"Size": {"type": "integer", "minimum": 1}}})["Gemini"].tool
    assert tool is not None
    assert tool["parameters"]["properties"] == {
        "a": {"type": "INTEGER", "minimum": 1, "nullable": True, "description": "d"},
        "b": {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}]},
        "c": {"type": "INTEGER"},
    }


def test_gemini_refuses_types_that_contain_themselves() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    found = forms({"properties": {"a": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}})
    assert found["Gemini"].tool is None
    assert "contain themselves" in found["Gemini"].problems[0]
    assert found["Anthropic"].problems == ()


@pytest.mark.parametrize(
    ("schema", "name", "refusing"),
    [
        ({"properties": {"a b": TEXT}}, "x", {"OpenAI", "OpenAI strict", "Anthropic"}),
        ({"properties": {"a": TEXT}, "anyOf": [{}]}, "x", {"OpenAI", "OpenAI strict", "Anthropic"}),
        ({"properties": {"a": {"type": ["string", "null"]}}}, "x", {"Gemini"}),
        ({"properties": {"a": TEXT}}, "x.y", {"OpenAI", "OpenAI strict"}),
    ],
)
def test_refusing_clients_are_named(schema: dict[str, Any], name: str, refusing: set[str]) -> None:
    assert {client for client, each in forms(schema, name).items() if each.problems} >= refusing


def test_tool_without_arguments_has_no_parameters_for_gemini() -> None:
    found = forms({"properties": {}})
    assert found["Gemini"].tool == {"name": "get_order", "description": "Get an order."}
