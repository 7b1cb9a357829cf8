"""Rewrites schemas that we make so that every known client and model API takes them.

The result accepts exactly the same values. Schemas that people wrote are never rewritten (SCHEMA-02).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, Final

from mcp_app.catalogue.schemas.subschemas import Schema, mapped

LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]")
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
# A bool is an int in Python, too.
_KINDS: Final = (
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)
# They see what stands beside them, so nothing may be moved away.
_SEEING: Final = frozenset(("unevaluatedItems", "unevaluatedProperties"))
_REFERENCE: Final = "#/$defs/"


def portable(schema: Schema) -> Schema:
    """Return an equal schema of an object in the form that clients agree on.

    Its root has ``properties`` and no reference. Every schema below is an object with at most one type.
    Arrays have ``items``, bounds are numbers, and each ``enum`` has values of one type.
    """
    found = _node("", _with_plain_root(schema))
    return {"type": "object", "properties": {}, **found} if found.get("type") == "object" else found


def as_number(value: Decimal) -> int | float:
    """Return the decimal as a number of JSON; infinity and NaN remain what they are."""
    return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)


def _with_plain_root(schema: Schema) -> Schema:
    """A recursive type refers to itself from the root, beside which clients expect no other member."""
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
        # "additionalProperties": false is known everywhere; elsewhere old revisions know objects only.
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
                del schema[keyword]  # JSON has no such number, and as a bound it bounds nothing.
            elif isinstance(value, Decimal):
                schema[keyword] = as_number(value)
    if isinstance(values := schema.get("enum"), list):
        schema["enum"] = [as_number(value) if isinstance(value, Decimal) else value for value in values]


def _settle_choices(schema: Schema) -> None:
    """``const`` and ``discriminator`` are unknown to some, an ``enum`` and ``anyOf`` to nobody."""
    if "const" in schema and "enum" not in schema:
        schema["enum"] = [schema.pop("const")]
    if "discriminator" in schema and "oneOf" in schema and "anyOf" not in schema:
        del schema["discriminator"]
        schema["anyOf"] = schema.pop("oneOf")


def _with_one_type(schema: Schema) -> Schema:
    """Split a list of types, or of values of several types, into alternatives of one type each."""
    kinds, values = schema.get("type"), schema.get("enum")
    if isinstance(kinds, str):
        kinds = [kinds]
    elif kinds is None and isinstance(values, list):
        kinds = kinds_of(values)
    if not isinstance(kinds, list) or not schema.keys().isdisjoint(_SEEING):
        return schema
    own = {kind: _words_of(kind, kinds) for kind in kinds}
    branches = [branch for kind in kinds if (branch := _branch(schema, kind, own[kind])) is not None]
    if not branches:
        return schema
    moved = {"type", "enum"}.union(*own.values())
    if len(branches) == 1:
        return {**{word: value for word, value in schema.items() if word != "enum"}, **branches[0]}
    rest = {word: value for word, value in schema.items() if word not in moved}
    if "anyOf" in rest:
        return {**rest, "allOf": [*rest.get("allOf", ()), {"anyOf": branches}]}
    return {**rest, "anyOf": branches}


def _words_of(kind: str, kinds: list[str]) -> frozenset[str]:
    """Return the keywords about one of these types; ``format`` is about numbers where no text is allowed."""
    words = _KEYWORDS.get(kind, frozenset())
    return words | {"format"} if words is _NUMBERS and "string" not in kinds else words


def _branch(schema: Schema, kind: str, own: frozenset[str]) -> Schema | None:
    """Return the part of the schema about one type, None if no listed value is of this type."""
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
    """Return the types of the values, empty if there is a value that JSON does not have."""
    kinds = [*dict.fromkeys(map(_kind_of, values))]
    if "" in kinds:
        return []
    return [kind for kind in kinds if kind != "integer"] if "number" in kinds else kinds


def _kind_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "")


def _settle_items(schema: Schema) -> None:
    """Some ask each array for ``items``; behind the last place of a closed tuple any schema is equal."""
    if schema.get("type") != "array" or "items" in schema or not schema.keys().isdisjoint(_SEEING):
        return
    places = schema.get("prefixItems", [])
    kinds = [each for number, each in enumerate(places) if each not in places[:number]]
    if not places or schema.get("maxItems", math.inf) > len(places):
        schema["items"] = {}
    else:
        schema["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
