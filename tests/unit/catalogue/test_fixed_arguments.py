"""Arguments that a preset or a toolset fixes: callers neither send nor see them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mcp_app.catalogue.schemas.validation import compile_schema
from mcp_app.catalogue.snapshots.toolsets import fixed
from tests.unit.catalogue.entries import tool_entry

SECRET = "s3cret"
TOKEN: dict[str, Any] = {"token": {"type": ["string", "object", "array"]}}


def add(a: str) -> str:
    """Add."""
    return a


@pytest.mark.requirement("TSET-06")
@pytest.mark.parametrize(
    "schema",
    [
        # The code of the tool was changed after an administrator had fixed the argument.
        {"additionalProperties": False},
        {"unevaluatedProperties": False},
        {"properties": {"token": {"type": "integer"}}},
        {"properties": {"token": {"properties": {}, "minLength": 9, "additionalProperties": False}}},
        {"properties": {"token": {"properties": {"key": {"type": "integer"}}, "minItems": 2}}},
        # The schema relates arguments to each other.
        {"properties": TOKEN, "maxProperties": 1},
        {"properties": TOKEN, "oneOf": [{"required": ["token"]}, {"required": ["a"]}]},
        {"properties": TOKEN, "dependentSchemas": {"a": {"not": {"required": ["token"]}}}},
    ],
)
def test_refused_call_does_not_show_fixed_arguments(schema: dict[str, Any]) -> None:
    properties = {"a": {"type": "string"}, **schema.get("properties", {})}
    whole = {"type": "object", **schema, "properties": properties}
    entry = tool_entry(add)
    changed = replace(entry, wire={**entry.wire, "inputSchema": whole}, input=compile_schema(whole))
    for value in (SECRET, {"key": SECRET}, [SECRET]):
        own = fixed(changed, {"token": value})
        assert SECRET not in str(own.check({"a": "mine"}))
        assert own.check({"a": 1}) == "a: expected string, got 1"
    assert any(fixed(changed, {"token": value}).check({"a": "mine"}) for value in (SECRET, {}, []))
