"""Validators explain failures in one line and never open connections."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from mcp_app.catalogue.schemas.validation import SchemaError, compile_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "maximum": 5},
        "kind": {"enum": ["a", "b"]},
        "name": {"type": "string", "maxLength": 2, "pattern": "^x"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "one": {"const": 1},
        "list": {"type": "array", "items": {"type": "object", "required": ["id"]}},
    },
    "required": ["count"],
    "additionalProperties": False,
}


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "count: expected a value, got nothing"),
        ({"count": "x"}, "count: expected integer, got 'x'"),
        ({"count": 0}, "count: expected a value of at least 1, got 0"),
        ({"count": 6}, "count: expected a value of at most 5, got 6"),
        ({"count": 1, "kind": 3}, "kind: expected one of 'a', 'b', got 3"),
        ({"count": 1, "name": "xyz"}, "name: expected at most 2 characters, got 'xyz'"),
        ({"count": 1, "name": "y"}, "name: expected text matching ^x, got 'y'"),
        ({"count": 1, "either": "s"}, "either: expected integer or null, got 's'"),
        ({"count": 1, "one": 2}, "one: expected exactly 1, got 2"),
        ({"count": 1, "more": [1]}, "more: expected no such argument, got [1]"),
        ({"count": 1, "list": [{"id": 1}, {}]}, "list.1.id: expected a value, got nothing"),
        ({"count": 1, "list": [1]}, "list.0: expected object, got 1"),
    ],
)
def test_failure_names_path_expected_and_received(arguments: dict[str, Any], text: str) -> None:
    validator = compile_schema(SCHEMA)
    assert not validator.is_valid(arguments)
    assert validator.explain(arguments) == text


@pytest.mark.requirement("TOOL-10")
@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (
            {"name": "xyz", "list": [{}, 1], "more": 1, "another": 2},
            [
                "another: expected no such argument, got 2",
                "count: expected a value, got nothing",
                "list.0.id: expected a value, got nothing",
                "list.1: expected object, got 1",
                "more: expected no such argument, got 1",
                "name: expected at most 2 characters, got 'xyz'",
            ],
        ),
        ({"count": 1, "list": [1] * 10}, [f"list.{number}: expected object, got 1" for number in range(10)]),
        (
            {"count": 1, "list": [1] * 11},
            [*(f"list.{number}: expected object, got 1" for number in range(10)), "and more"],
        ),
        (
            {"count": 1, **{f"more{number:02}": 0 for number in range(12)}},
            [*(f"more{number:02}: expected no such argument, got 0" for number in range(10)), "and more"],
        ),
    ],
)
def test_all_failures_are_listed_up_to_ten(arguments: dict[str, Any], texts: list[str]) -> None:
    assert compile_schema(SCHEMA).explain(arguments) == "; ".join(texts)


@pytest.mark.requirement("TOOL-10")
def test_received_value_is_truncated_to_100_characters() -> None:
    text = compile_schema(SCHEMA).explain({"count": "x" * 1000})
    assert len(text.partition(", got ")[2]) == 100
    assert len(compile_schema(SCHEMA).explain({"count": 1, "k" * 1000: "v" * 1000})) < 300


@pytest.mark.requirement("SCHEMA-03")
@pytest.mark.parametrize(
    "reference", ["https://127.0.0.1:1/s", "file:///etc/passwd", "http://169.254.169.254/latest"]
)
def test_external_reference_opens_no_connection(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *arguments: opened.append(arguments))
    with pytest.raises(SchemaError, match="not a usable JSON Schema"):
        compile_schema({"$ref": reference})
    assert not opened


@pytest.mark.requirement("SCHEMA-01")
def test_schema_dialects_are_honoured() -> None:
    old = compile_schema(
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}
    )
    assert not old.is_valid(["x"])
    new = compile_schema({"prefixItems": [{"type": "integer"}]})
    assert not new.is_valid(["x"])
    assert new.explain([1]) == ""
