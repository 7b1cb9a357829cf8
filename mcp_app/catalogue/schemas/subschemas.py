"""Traversal of the subschemas of a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Schema = dict[str, Any]

_ONE: Final = (
    "items", "additionalItems", "contains", "additionalProperties", "propertyNames", "not", "if", "then",
    "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def walk(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the schema and all subschemas, including booleans, each with its path."""
    yield path, schema
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            for name, child in value.items():
                yield from walk(child, (*path, keyword, str(name)))
        elif keyword in _LISTS and isinstance(value, list):
            for number, child in enumerate(value):
                yield from walk(child, (*path, keyword, str(number)))
        elif keyword in _ONE and isinstance(value, dict | bool):
            yield from walk(value, (*path, keyword))


def mapped(schema: Schema, change: Callable[[str, Any], Any]) -> Schema:
    """Return the schema with each direct subschema replaced by ``change(keyword, child)``."""
    found: Schema = {}
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            found[keyword] = {name: change(keyword, child) for name, child in value.items()}
        elif keyword in _LISTS and isinstance(value, list):
            found[keyword] = [change(keyword, child) for child in value]
        elif keyword in _ONE and isinstance(value, dict | bool):
            found[keyword] = change(keyword, value)
        else:
            found[keyword] = value
    return found
