"""Conversion of OpenAPI 3.0 or 3.1 schemas of requests to JSON Schema 2020-12.

The conversion also repairs frequent mistakes of schema generators.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from mcp_app.catalogue.schemas.portable import as_number
from mcp_app.catalogue.schemas.schema_bounds import MAX_CHOICES, MAX_PATTERN
from mcp_app.catalogue.schemas.validation import SchemaError, compile_schema

Schema = dict[str, Any]
_REFERENCE: Final = "#/components/schemas/"
# Keywords that only document. They would cost tokens of every model that reads the tools.
_DROPPED: Final = frozenset(
    ("example", "examples", "xml", "externalDocs", "discriminator", "readOnly", "writeOnly", "nullable")
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")


@dataclass(slots=True)
class Converter:
    """A converter for one document. Converted schemas refer to ``definitions``."""

    components: Mapping[str, Any]
    definitions: dict[str, Schema] = field(default_factory=dict)

    def convert(self, schema: Any) -> Any:
        """Return the schema without read-only members and documentation keywords.

        ``nullable`` becomes the type ``null``.
        """
        if not isinstance(schema, dict):
            return schema
        found: Schema = {}
        for keyword, value in schema.items():
            if keyword not in _DROPPED and not keyword.startswith("x-"):
                self._keyword(found, keyword, value)
        _mend_required(found)
        _mend_choices(found)
        _mend_bounds(found)
        _mend_decimal(found)
        _mend_pattern(found)
        return _nullable(found) if schema.get("nullable") is True else found

    def members(self, schema: Schema) -> tuple[dict[str, Schema], tuple[str, ...]] | None:
        """Return properties and required names of a closed object, or None for any other schema."""
        target = self._target(schema)
        free = target.get("additionalProperties", False) is not False
        if free or not isinstance(target.get("properties"), dict) or not target.keys().isdisjoint(_LISTS):
            return None
        converted = self.convert(target)
        return converted["properties"], tuple(converted.get("required", ()))

    def _target(self, schema: Schema) -> Schema:
        name = str(schema.get("$ref", "")).removeprefix(_REFERENCE)
        found: Schema = self.components.get(name, {}) if name else schema
        return found

    def _keyword(self, found: Schema, keyword: str, value: Any) -> None:
        if keyword == "$ref":
            found["$ref"] = self._reference(str(value))
        elif keyword == "properties":
            found[keyword] = {name: self.convert(member) for name, member in _writable(value).items()}
        elif keyword in _LISTS:
            found[keyword] = [self.convert(member) for member in value]
        elif keyword in ("items", "additionalProperties", "not"):
            found[keyword] = self.convert(value)
        else:
            found[keyword] = _plain(value)

    def _reference(self, target: str) -> str:
        name = target.removeprefix(_REFERENCE)
        if name not in self.definitions:
            self.definitions[name] = {}  # A component may refer to itself.
            self.definitions[name] = self.convert(self.components.get(name, {}))
        return f"#/$defs/{name}"


def _writable(properties: Any) -> dict[str, Any]:
    """Return the properties that are not read-only. A component often describes requests and responses."""
    return {
        name: member
        for name, member in properties.items()
        if not (isinstance(member, dict) and member.get("readOnly") is True)
    }


def _plain(value: Any) -> Any:
    """Return the value as plain JSON. Lazy strings and dates become strings, decimals become numbers."""
    return json.loads(json.dumps(value, default=_json))


def _json(value: Any) -> Any:
    return as_number(value) if isinstance(value, Decimal) else str(value)


def _mend_required(schema: Schema) -> None:
    """Drop required names that have no property, because read-only properties were removed."""
    if "required" in schema and "properties" in schema:
        schema["required"] = [name for name in schema["required"] if name in schema["properties"]]
    if not schema.get("required", True):
        del schema["required"]


def _mend_choices(schema: Schema) -> None:
    """Replace ``oneOf`` with ``anyOf``, and repair ``enum``.

    Generators use ``oneOf`` for overlapping schemas, whose common values ``oneOf`` would refuse.
    """
    if "oneOf" in schema:
        choices = schema.pop("oneOf")
        if "anyOf" in schema:
            schema["allOf"] = [*schema.get("allOf", ()), {"anyOf": choices}]
        else:
            schema["anyOf"] = choices
    if "null" in _kinds(schema) and None not in schema.get("enum", (None,)):
        schema["enum"] = [*schema["enum"], None]
    if len(schema.get("enum", ())) > MAX_CHOICES:
        del schema["enum"]


def _mend_bounds(schema: Schema) -> None:
    """Convert the exclusive flags of OpenAPI 3.0 into bounds."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = schema.get(exclusive)
        if isinstance(flag, bool):
            del schema[exclusive]
            if flag and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _mend_decimal(schema: Schema) -> None:
    """Allow numbers for decimals. Serializers accept numbers, but the schema allows strings only."""
    kinds = _kinds(schema)
    if schema.get("format") == "decimal" and "string" in kinds and "number" not in kinds:
        schema["type"] = [*kinds, "number"]


def _mend_pattern(schema: Schema) -> None:
    """Drop patterns that the linear-time engine does not support. The serializer still checks them."""
    pattern = schema.get("pattern")
    if pattern is None:
        return
    try:
        compile_schema({"pattern": pattern})
    except SchemaError:
        del schema["pattern"]
        return
    if len(pattern) > MAX_PATTERN:
        del schema["pattern"]


def _nullable(schema: Schema) -> Schema:
    if "type" not in schema:
        described: Schema = {
            key: schema.pop(key) for key in ("description", "title", "default") if key in schema
        }
        return {**described, "anyOf": [schema, {"type": "null"}]} if schema else described
    schema["type"] = [*dict.fromkeys((*_kinds(schema), "null"))]
    _mend_choices(schema)
    return schema


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)
