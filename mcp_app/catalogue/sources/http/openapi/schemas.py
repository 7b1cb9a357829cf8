"""Conversion of the schemas of OpenAPI 3.0 and 3.1 to JSON Schema 2020-12 in the portable form.

Each component is converted once per document. The converted form accepts all values of the original. Rules
that some clients cannot read are left to the API, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import orjson

from mcp_app.catalogue.schemas.client_rules import PROPERTY_NAME
from mcp_app.catalogue.schemas.portable import LOOKAROUND, portable
from mcp_app.catalogue.schemas.schema_bounds import MAX_BYTES, MAX_CHOICES, MAX_PATTERN
from mcp_app.catalogue.schemas.validation import SchemaError, compile_schema
from mcp_app.catalogue.sources.http.openapi.faults import Note, Unconvertible
from mcp_app.catalogue.sources.http.openapi.names import digits, member_alias, slug
from mcp_app.catalogue.sources.http.openapi.reading import Document, escaped

Schema = dict[str, Any]

MAX_LEVELS: Final = 12
MAX_DESCRIPTION: Final = 1_000
MAX_DEFAULT: Final = 200
_MAX_INTEGER: Final = 2**63 - 1
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_TYPES: Final = frozenset(("string", "number", "integer", "boolean", "array", "object", "null"))
_FORMATS: Final = frozenset(
    ("date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")
)
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LIMITS: Final = ("minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum")
_CHOICES: Final = ("allOf", "anyOf", "oneOf")
# Keywords that some clients refuse. The API checks these rules itself.
_UNCHECKED: Final = (
    "not", "if", "dependentSchemas", "dependentRequired", "dependencies", "unevaluatedProperties",
    "unevaluatedItems", "propertyNames", "contains", "contentSchema", "$dynamicRef", "$recursiveRef",
)  # fmt: skip
# Keywords beside a single "allOf" that do not change what is accepted.
_SILENT: Final = frozenset(
    ("allOf", "description", "title", "nullable", "example", "examples", "default", "deprecated", "readOnly",
     "writeOnly", "xml", "externalDocs", "type")
)  # fmt: skip


@dataclass(slots=True)
class Converted:
    """A converted schema, and everything found on the way. ``targets`` are pointers to its components."""

    schema: Schema
    targets: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


class Schemas:
    """The schemas of one document, converted for one direction: arguments or results.

    Arguments have no ``readOnly`` members, results no ``writeOnly`` members.
    """

    def __init__(self, document: Document, *, for_results: bool = False) -> None:
        self.document = document
        self.hidden = "writeOnly" if for_results else "readOnly"
        self._components: dict[str, Converted | Unconvertible] = {}
        self._reached: dict[str, dict[str, None]] = {}
        self._recursive: dict[str, bool] = {}

    def convert(self, given: Any, pointer: str) -> Converted:
        """Return a converted schema. Raises Unconvertible."""
        node = _Node(self)
        schema = node.convert(given, pointer, 0)
        # ``portable`` treats the root as arguments, so the schema is passed below a root.
        settled = portable({"type": "object", "properties": {"it": schema}})["properties"]["it"]
        size = len(orjson.dumps(settled, default=str))
        return Converted(settled, tuple(node.targets), tuple(node.notes), node.aliases, size)

    def component(self, pointer: str) -> Converted:
        """Return the converted target of a reference. Raises Unconvertible."""
        if pointer not in self._components:
            try:
                self._components[pointer] = self.convert(self.document.find(pointer), pointer)
            except Unconvertible as error:
                self._components[pointer] = error
        found = self._components[pointer]
        if isinstance(found, Unconvertible):
            raise found
        return found

    def reached(self, targets: tuple[str, ...]) -> tuple[str, ...]:
        """Return the pointers of all components in use, each once. Raises Unconvertible if too large."""
        found: dict[str, None] = {}
        for target in targets:
            if target not in found:
                found.update(self._reached_by(target))
        return tuple(found)

    def is_recursive(self, pointers: tuple[str, ...]) -> bool:
        """Return True if one of the components contains itself."""
        return any(map(self._is_recursive, pointers))

    def _is_recursive(self, pointer: str) -> bool:
        # Many operations use the same components, so each is examined once.
        if pointer not in self._recursive:
            targets = self.component(pointer).targets
            self._recursive[pointer] = any(pointer in self._reached_by(target) for target in targets)
        return self._recursive[pointer]

    def _reached_by(self, start: str) -> dict[str, None]:
        if start not in self._reached:
            found: dict[str, None] = {}
            pending, size = [start], 0
            while pending:
                pointer = pending.pop()
                if pointer in found:
                    continue
                found[pointer] = None
                component = self.component(pointer)
                size += component.size
                if size > MAX_BYTES:
                    raise too_large(start)
                pending += component.targets
            self._reached[start] = found
        return self._reached[start]


def too_large(pointer: str) -> Unconvertible:
    """Return the error for an input schema above the limit."""
    return Unconvertible(
        pointer,
        f"Its arguments need a schema of more than {MAX_BYTES // 1024} KiB: write an HTTP tool by hand",
    )


def definition_name(pointer: str) -> str:
    """Return the name in ``$defs`` of the target of a reference."""
    home, _, name = pointer.rpartition("/")
    if home in ("#/components/schemas", "#/definitions") and PROPERTY_NAME.fullmatch(name):
        return name
    return f"{slug(name)[:40] or 'schema'}_{digits(pointer)}"


@lru_cache(maxsize=4_096)
def usable_pattern(pattern: str) -> bool:
    """Return True if the engine of this server and those of clients can read a regular expression."""
    if len(pattern) > MAX_PATTERN or "\0" in pattern or LOOKAROUND.search(pattern):
        return False
    try:
        compile_schema({"pattern": pattern})
    except SchemaError:
        return False
    return True


def cleaned(text: Any, most: int = MAX_DESCRIPTION) -> str:
    """Return a text without control characters, cut at ``most`` characters."""
    if not isinstance(text, str):
        return ""
    plain = _CONTROLS.sub("", text).strip()
    return plain if len(plain) <= most else plain[: most - 1].rstrip() + "…"


class _Node:
    """The conversion of one schema with everything inside it."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._is_old = schemas.document.version not in ("3.1", "3.2")
        self.targets: dict[str, None] = {}
        self.notes: list[Note] = []
        self.aliases: dict[str, str] = {}

    def convert(self, given: Any, pointer: str, level: int) -> Schema:
        if given is None or isinstance(given, bool):
            return {"not": {}} if given is False else {}
        if not isinstance(given, dict):
            raise Unconvertible(pointer, "This is not a schema")
        if level > MAX_LEVELS:
            self._note(pointer, f"Members below {MAX_LEVELS} levels are not described")
            return {}
        if isinstance(given.get("$ref"), str):
            return self._reference(given, pointer, level)
        only = given.get("allOf")
        if isinstance(only, list) and len(only) == 1 and given.keys() <= _SILENT:
            found = self.convert(only[0], f"{pointer}/allOf/0", level)
            return self._nullable({**found, **_description(given)}, given)
        return self._plain(given, pointer, level)

    def _reference(self, given: Schema, pointer: str, level: int) -> Schema:
        target = given["$ref"]
        try:
            self._schemas.document.solved(given)
        except KeyError:
            raise Unconvertible(pointer, f"The reference {target[:200]!r} leads nowhere") from None
        self.targets[target] = None
        found = {"$ref": f"#/$defs/{definition_name(target)}", **_description(given)}
        rest = {name: value for name, value in given.items() if name not in ("$ref", "description")}
        if not self._is_old and rest.keys() - _SILENT:
            found = {**self.convert(rest, pointer, level), **found}
        return self._nullable(found, given)

    def _nullable(self, found: Schema, given: Schema) -> Schema:
        """Return an alternative with null, unless the type has null already."""
        if given.get("nullable") is not True or "null" in _types(found):
            return found
        described = {name: found.pop(name) for name in ("description",) if name in found}
        return {**described, "anyOf": [found, {"type": "null"}]}

    def _plain(self, given: Schema, pointer: str, level: int) -> Schema:
        found: Schema = {}
        self._type(given, found, pointer)
        found |= _description(given)
        self._numbers(given, found, pointer)
        self._texts(given, found, pointer)
        self._values(given, found, pointer)
        self._object(given, found, pointer, level)
        self._array(given, found, pointer, level)
        self._choices(given, found, pointer, level)
        for keyword in _UNCHECKED:
            if keyword in given:
                self._note(pointer, f"{keyword!r} is checked by the API only")
        if given.get("nullable") is True:
            if (types := _types(found)) and not found.keys() & set(_CHOICES):
                found["type"] = [*types, *(("null",) if "null" not in types else ())]
                if "enum" in found and None not in found["enum"]:
                    found["enum"] = [*found["enum"], None]
            else:
                found = self._nullable(found, given)
        return found

    def _type(self, given: Schema, found: Schema, pointer: str) -> None:
        kinds = given.get("type")
        if kinds is None:
            kinds = "object" if "properties" in given else "array" if "items" in given else None
        elif kinds == "file":
            kinds = "string"
            found["contentEncoding"] = "base64"
        listed = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        known = [kind for kind in dict.fromkeys(map(str, listed)) if kind in _TYPES]
        if len(known) != len(listed):
            self._note(pointer, f"The type {str(kinds)[:50]!r} does not exist: any value is accepted")
        elif known:
            found["type"] = known[0] if len(known) == 1 else known

    def _numbers(self, given: Schema, found: Schema, pointer: str) -> None:
        for keyword in _COUNTS:
            if keyword in given:
                self._keep(given, found, pointer, keyword, _is_count)
        limits = dict(given)
        for keyword, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(exclusive := limits.get(keyword), bool):
                del limits[keyword]
                if exclusive and limit in limits:
                    limits[keyword] = limits.pop(limit)
        for keyword in _LIMITS:
            value: Any = limits.get(keyword)
            if _is_number(value) and abs(value) > _MAX_INTEGER:
                continue  # Some readers of JSON have no such number, and as a limit it has no effect.
            if keyword in limits:
                self._keep(
                    limits, found, pointer, keyword, _is_positive if keyword == "multipleOf" else _is_number
                )

    def _texts(self, given: Schema, found: Schema, pointer: str) -> None:
        pattern = given.get("pattern")
        if isinstance(pattern, str):
            if usable_pattern(pattern):
                found["pattern"] = pattern
            else:
                self._note(pointer, "The pattern is checked by the API only")
        kind = given.get("format")
        if kind in ("binary", "byte"):
            found["contentEncoding"] = "base64"
        elif isinstance(kind, str) and kind in _FORMATS:
            found["format"] = kind
        for keyword in ("contentEncoding", "contentMediaType"):
            if isinstance(given.get(keyword), str):
                found[keyword] = given[keyword][:100]

    def _values(self, given: Schema, found: Schema, pointer: str) -> None:
        values = [given["const"]] if "const" in given else given.get("enum")
        if isinstance(values, list) and values:
            self._enum(values, found, pointer)
        default = given.get("default")
        if isinstance(default, bool | int | float) or (
            isinstance(default, str) and len(default) <= MAX_DEFAULT
        ):
            found["default"] = default

    def _enum(self, values: list[Any], found: Schema, pointer: str) -> None:
        if len(values) > MAX_CHOICES:
            self._note(pointer, f"The list of {len(values)} values is checked by the API only")
            return
        if found.get("type") == "string":  # YAML reads a plain 1 or true as no text.
            values = [
                value if isinstance(value, str | None) else orjson.dumps(value).decode() for value in values
            ]
        if any(_is_number(value) and abs(value) > _MAX_INTEGER for value in values):
            self._note(pointer, "A list of numbers above 64 bits is checked by the API only")
            return
        found["enum"] = [value for number, value in enumerate(values) if not _among(value, values[:number])]

    def _object(self, given: Schema, found: Schema, pointer: str, level: int) -> None:
        properties = given.get("properties")
        hidden: set[str] = set()
        names: dict[str, str] = {}
        if isinstance(properties, dict):
            hidden = {name for name, each in properties.items() if self._is_hidden(each)}
            shown = {name: each for name, each in properties.items() if name not in hidden}
            names = {name: self._member(name) for name in shown}
            found["properties"] = {
                names[name]: self.convert(each, f"{pointer}/properties/{escaped(name)}", level + 1)
                for name, each in shown.items()
            }
        required = given.get("required")
        if isinstance(required, list):
            kept = [
                names.get(name, name) for name in required if isinstance(name, str) and name not in hidden
            ]
            if kept := [*dict.fromkeys(kept)]:
                found["required"] = kept
        more = given.get("additionalProperties")
        if isinstance(more, bool | dict):
            found["additionalProperties"] = (
                more
                if isinstance(more, bool)
                else self.convert(more, f"{pointer}/additionalProperties", level + 1)
            )
        if given.get("patternProperties"):
            self._note(pointer, "Members whose names follow a pattern are checked by the API only")
            found["additionalProperties"] = True

    def _array(self, given: Schema, found: Schema, pointer: str, level: int) -> None:
        if isinstance(given.get("uniqueItems"), bool):
            found["uniqueItems"] = given["uniqueItems"]
        items = given.get("items")
        if isinstance(items, dict | bool):
            found["items"] = self.convert(items, f"{pointer}/items", level + 1)
        first = given.get("prefixItems")
        if isinstance(first, list) and first:
            found["prefixItems"] = [
                self.convert(each, f"{pointer}/prefixItems/{number}", level + 1)
                for number, each in enumerate(first)
            ]

    def _choices(self, given: Schema, found: Schema, pointer: str, level: int) -> None:
        for keyword in _CHOICES:
            branches = given.get(keyword)
            if not isinstance(branches, list) or not branches:
                continue
            made = [
                self.convert(each, f"{pointer}/{keyword}/{number}", level + 1)
                for number, each in enumerate(branches)
            ]
            # Alternatives overlap in practice, and fewer clients know "oneOf". The API chooses.
            word = "anyOf" if keyword == "oneOf" else keyword
            if word in found:
                found["allOf"] = [*found.get("allOf", ()), {word: made}]
            else:
                found[word] = made

    def _is_hidden(self, given: Any) -> bool:
        return isinstance(given, dict) and given.get(self._schemas.hidden) is True

    def _member(self, name: str) -> str:
        if PROPERTY_NAME.fullmatch(name):
            return name
        alias = member_alias(name)
        self.aliases[alias] = name
        return alias

    def _keep(
        self, given: Schema, found: Schema, pointer: str, keyword: str, fits: Callable[[Any], bool]
    ) -> None:
        if fits(given[keyword]):
            found[keyword] = given[keyword]
        else:
            self._note(pointer, f"{keyword!r} is not a usable number: it is ignored")

    def _note(self, pointer: str, text: str) -> None:
        self.notes.append(Note(pointer, text))


def _types(schema: Schema) -> list[str]:
    kinds = schema.get("type")
    return [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []


def _description(given: Schema) -> Schema:
    text = cleaned(given.get("description")) or cleaned(given.get("title"), MAX_DEFAULT)
    return {"description": text} if text else {}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INTEGER


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _among(value: Any, values: list[Any]) -> bool:
    """Return True if a JSON value is in the list. In JSON ``true`` differs from ``1``."""
    return any(isinstance(each, bool) == isinstance(value, bool) and each == value for each in values)
