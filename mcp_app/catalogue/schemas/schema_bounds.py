"""Bounds for schemas that do not come from code: no excessive work, no external references.

SCHEMA-03, SCHEMA-04, S15, S16. The cost of a check is computed in advance as the number of subschemas that
the worst instance would apply. A small schema whose work doubles with each level is therefore refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from mcp_app.catalogue.schemas.validation import SchemaError, Validator, compile_schema

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 32
MAX_SUBSCHEMAS: Final = 2_000
MAX_CHOICES: Final = 1_000
MAX_PATTERN: Final = 500
MAX_COST: Final = 100_000
INSTANCE_DEPTH: Final = 64

DIALECTS: Final = frozenset(
    (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema",
    )
)
_DATA: Final = frozenset(("enum", "const", "default", "examples", "example"))
_MAPS: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
# The subschemas of these keywords apply to the same value as the enclosing schema.
_IN_PLACE: Final = (
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentSchemas",
    "dependencies",
)
# The subschemas of these keywords apply to members of the value. "properties" is not included, because
# only one of its subschemas applies to a member.
_BELOW: Final = (
    "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames", "items",
    "prefixItems", "additionalItems", "unevaluatedItems", "contains",
)  # fmt: skip


def compile_foreign(schema: Any) -> Validator:
    """Check and compile a schema from an administrator or another server. Raises SchemaError."""
    if not isinstance(schema, dict):
        raise SchemaError("a schema must be a JSON object.")
    _check_size(schema)
    _check_dialect(schema.get("$schema"))
    nodes = _Nodes(schema)
    nodes.survey(schema, "#", 0)
    validator = compile_schema(schema)
    cost = nodes.cost(schema, INSTANCE_DEPTH)
    if cost > MAX_COST:
        raise SchemaError(
            "its composition multiplies the work with each level; use fewer recursive alternatives."
        )
    return validator


def _check_size(schema: dict[str, Any]) -> None:
    try:
        size = len(orjson.dumps(schema))
    except (TypeError, orjson.JSONEncodeError) as error:
        raise SchemaError(f"it is not JSON: {error}.") from error
    if size > MAX_BYTES:
        raise SchemaError(f"it has {size} bytes; at most {MAX_BYTES} are allowed.")


def _check_dialect(dialect: Any) -> None:
    if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in DIALECTS):
        raise SchemaError(f"the dialect {str(dialect)[:200]!r} is not supported; use JSON Schema 2020-12.")


def _children(schema: dict[str, Any], keywords: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for keyword in keywords:
        value = schema.get(keyword)
        members = value.values() if isinstance(value, dict) and keyword in _MAPS else [value]
        for member in members:
            candidates = member if isinstance(member, list) else [member]
            yield from (item for item in candidates if isinstance(item, dict))


@dataclass(slots=True)
class _Nodes:
    """The schema objects of one document, with counts, anchors and costs."""

    root: dict[str, Any]
    count: int = 0
    anchors: dict[str, dict[str, Any]] = field(default_factory=dict)
    costs: dict[tuple[int, int], int] = field(default_factory=dict)
    open: set[tuple[int, int]] = field(default_factory=set)

    def survey(self, value: Any, path: str, depth: int) -> None:
        """Walk all schema objects, skipping plain data. Raises SchemaError for a violated bound."""
        if depth > MAX_DEPTH * 2:
            raise SchemaError(f"{path} is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.survey(item, f"{path}/{index}", depth + 1)
        if not isinstance(value, dict):
            return
        self.count += 1
        if self.count > MAX_SUBSCHEMAS:
            raise SchemaError(f"it has more than {MAX_SUBSCHEMAS} subschemas.")
        self._check_object(value, path)
        for keyword, member in value.items():
            # Below keywords such as "properties" a name such as "enum" is a member name, not a keyword.
            named = member.items() if keyword in _MAPS and isinstance(member, dict) else ()
            for name, item in named:
                self.survey(item, f"{path}/{keyword}/{name}"[:200], depth + 2)
            if not named and keyword not in _DATA:
                self.survey(member, f"{path}/{keyword}"[:200], depth + 1)

    def _check_object(self, value: dict[str, Any], path: str) -> None:
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = value.get(keyword)
            if isinstance(target, str) and not target.startswith("#"):
                raise SchemaError(
                    f"{path}: {keyword} {target[:200]!r} leads outside the schema; only '#…' is allowed."
                )
        if path != "#" and isinstance(value.get("$id"), str) and not value["$id"].startswith("#"):
            raise SchemaError(f"{path}: '$id' below the root is not allowed.")
        choices = value.get("enum")
        if isinstance(choices, list) and len(choices) > MAX_CHOICES:
            raise SchemaError(f"{path}: 'enum' has {len(choices)} values; at most {MAX_CHOICES} are allowed.")
        by_pattern = value.get("patternProperties")
        patterns = [value.get("pattern"), *(by_pattern if isinstance(by_pattern, dict) else ())]
        if any(isinstance(pattern, str) and len(pattern) > MAX_PATTERN for pattern in patterns):
            raise SchemaError(f"{path}: a pattern has more than {MAX_PATTERN} characters.")
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                self.anchors["#" + value[keyword]] = value

    def cost(self, schema: dict[str, Any], depth: int) -> int:
        """Return the maximum number of subschemas that a check applies to an instance of this depth."""
        key = (id(schema), depth)
        if key in self.costs:
            return self.costs[key]
        if key in self.open:
            raise SchemaError("it refers to itself without end.")
        self.open.add(key)
        # For "unevaluated…" the engine evaluates the sibling keywords again.
        walks = 3 if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1
        total = 1 + walks * sum(self.cost(child, depth) for child in self._in_place(schema))
        if depth > 0 and total <= MAX_COST:
            total += sum(self.cost(child, depth - 1) for child in _children(schema, _BELOW))
            total += max(
                (self.cost(child, depth - 1) for child in _children(schema, ("properties",))), default=0
            )
        self.open.discard(key)
        self.costs[key] = total = min(total, MAX_COST + 1)
        return total

    def _in_place(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from _children(schema, _IN_PLACE)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            target = self._target(schema.get(keyword))
            if target is not None:
                yield target

    def _target(self, reference: Any) -> dict[str, Any] | None:
        if not isinstance(reference, str):
            return None
        if reference in self.anchors:
            return self.anchors[reference]
        found: Any = self.root
        for part in reference.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict):
                found = found.get(name)
            else:
                return None
        return found if isinstance(found, dict) else None
