"""Rewriting of generated schemas into a form that all known clients and model APIs accept.

The result accepts exactly the same values. Schemas written by people are never rewritten (SCHEMA-02).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from mcp_app.catalogue.schemas.subschemas import Schema, mapped

LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
_NUMBERS: Final = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_TEXTS: Final = frozenset(
    ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema")
)
_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "string": _TEXTS,
    "number": _NUMBERS,
    "integer": _NUMBERS,
    "array": frozenset(
        (
            "items",
            "prefixItems",
            "contains",
            "minContains",
            "maxContains",
            "minItems",
            "maxItems",
            "uniqueItems",
        )
    ),
    "object": frozenset(
        (
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "required",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
        )
    ),
}
# bool before int: a bool is an int in Python.
_KINDS: Final = (
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
# These keywords depend on their sibling keywords, which therefore must stay beside them.
_SEEING: Final = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_REFERENCE: Final = "#/$defs/"


def portable(schema: Schema) -> Schema:
    """Return an equivalent object schema in a form that all known clients accept.

    Its root has ``properties`` and no reference. Every subschema is an object with at most one type.
    Arrays have ``items``, bounds are numbers, and each ``enum`` has values of one type.
    """
    found = _node("", _with_plain_root(schema))
    return {"type": "object", "properties": {}, **found} if found.get("type") == "object" else found


def as_number(value: Decimal) -> int | float:
    """Return the decimal as an int or float. Infinity and NaN become floats."""
    return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)


def _with_plain_root(schema: Schema) -> Schema:
    """Replace a reference at the root with its target. Clients expect no other members beside ``$ref``."""
    followed: set[str] = set()
    while (reference := schema.get("$ref")) is not None and reference not in followed:
        followed.add(reference)
        target = schema.get("$defs", {}).get(str(reference).removeprefix(_REFERENCE))
        if not isinstance(target, dict):
            break
        rest = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        schema = {**target, **rest}
    return schema


def _node(keyword: str, schema: Any) -> Any:
    if isinstance(schema, bool):
        # All clients support "additionalProperties": false. Under other keywords old drafts require objects.
        if keyword == "additionalProperties" or keyword in _SEEING:
            return schema
        return {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        return schema
    found = mapped(schema, _node)
    _settle_numbers(found)
    _settle_choices(found)
    found = _with_one_type(found)
    _settle_items(found)
    return found


def _settle_numbers(schema: Schema) -> None:
    for keyword in (*_NUMBERS, "default"):
        if isinstance(value := schema.get(keyword), Decimal | float):
            if not math.isfinite(value):
                del schema[keyword]  # JSON cannot express it, and as a bound it has no effect.
            elif isinstance(value, Decimal):
                schema[keyword] = as_number(value)
    if isinstance(values := schema.get("enum"), list):
        schema["enum"] = [as_number(value) if isinstance(value, Decimal) else value for value in values]


def _settle_choices(schema: Schema) -> None:
    """Replace ``const`` with ``enum``, and a ``oneOf`` that has a ``discriminator`` with ``anyOf``.

    Some clients do not know ``const`` and ``discriminator``.
    """
    if "const" in schema and "enum" not in schema:
        schema["enum"] = [schema.pop("const")]
    if "discriminator" in schema and "oneOf" in schema and "anyOf" not in schema:
        del schema["discriminator"]
        schema["anyOf"] = schema.pop("oneOf")


def _with_one_type(schema: Schema) -> Schema:
    """Split a list of types, or an ``enum`` with values of several types, into one alternative per type."""
    kinds, values = schema.get("type"), schema.get("enum")
    if isinstance(kinds, str):
        kinds = [kinds]
    elif kinds is None and isinstance(values, list):
        kinds = kinds_of(values)
    if not isinstance(kinds, list) or not schema.keys().isdisjoint(_SEEING):
        return schema
    own = {kind: _keywords_of(kind, kinds) for kind in kinds}
    branches = [branch for kind in kinds if (branch := _branch(schema, kind, own[kind])) is not None]
    for branch in branches:
        _settle_items(branch)
    if not branches:
        return schema
    moved = {"type", "enum"}.union(*own.values())
    if len(branches) == 1:
        return {**{word: value for word, value in schema.items() if word != "enum"}, **branches[0]}
    rest = {word: value for word, value in schema.items() if word not in moved}
    if "anyOf" in rest:
        return {**rest, "allOf": [*rest.get("allOf", ()), {"anyOf": branches}]}
    return {**rest, "anyOf": branches}


def _keywords_of(kind: str, kinds: list[str]) -> frozenset[str]:
    """Return the keywords that apply to ``kind``. For numbers ``format`` is included if no type is string."""
    words = _KEYWORDS.get(kind, frozenset())
    return words | {"format"} if words is _NUMBERS and "string" not in kinds else words


def _branch(schema: Schema, kind: str, own: frozenset[str]) -> Schema | None:
    """Return the part of the schema for one type, or None if no ``enum`` value has this type."""
    found: Schema = {"type": kind, **{word: value for word, value in schema.items() if word in own}}
    values = schema.get("enum")
    if not isinstance(values, list):
        return found
    fitting = [
        value for value in values if _kind_of(value) in (kind, *(("integer",) if kind == "number" else ()))
    ]
    if not fitting:
        return None
    return found if kind == "null" else {**found, "enum": fitting}


def kinds_of(values: list[Any]) -> list[str]:
    """Return the JSON types of the values, or an empty list if a value has no JSON type."""
    kinds = [*dict.fromkeys(map(_kind_of, values))]
    if "" in kinds:
        return []
    return [kind for kind in kinds if kind != "integer"] if "number" in kinds else kinds


def _kind_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "")


def _settle_items(schema: Schema) -> None:
    """Add ``items`` to an array, which some clients require. The accepted values stay the same."""
    if schema.get("type") != "array" or "items" in schema or not schema.keys().isdisjoint(_SEEING):
        return
    places = schema.get("prefixItems", [])
    kinds = [each for number, each in enumerate(places) if each not in places[:number]]
    if not places or schema.get("maxItems", math.inf) > len(places):
        schema["items"] = {}
    else:
        schema["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
