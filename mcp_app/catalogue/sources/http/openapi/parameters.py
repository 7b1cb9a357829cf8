"""Arguments and request parameters of an operation, from its ``parameters``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.catalogue.sources.http import styles
from mcp_app.catalogue.sources.http.openapi import names
from mcp_app.catalogue.sources.http.openapi.faults import Note, Unconvertible
from mcp_app.catalogue.sources.http.openapi.reading import Document, Place, escaped

PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
# OpenAPI defines these elsewhere: by the content types, and by security.
_DEFINED_ELSEWHERE: Final = frozenset(("accept", "content-type", "authorization"))
_SET_BY_SERVER: Final = re.compile(
    r"host|content-length|transfer-encoding|connection|te|trailer|upgrade|expect|cookie|forwarded|keep-alive|"
    r"accept-encoding|x-forwarded-.*|proxy-.*|mcp-.*",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFAULTS: Final = {"query": "form", "cookie": "form", "path": "simple", "header": "simple"}
_OBJECT_WORDS: Final = frozenset(("properties", "additionalProperties"))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its schema as in the document, and the way in which its value is sent."""

    name: str
    place: str
    pointer: str
    schema: Any
    required: bool
    description: Any
    style: str = ""
    explode: bool = False
    allow_reserved: bool = False
    content: str = ""

    def wire(self, argument: str) -> dict[str, Any]:
        """Return the parameter as part of a request plan."""
        # A placeholder has the name of its argument. Its own name is sent in the style "matrix" only.
        name = argument if self.place == "path" else self.name
        found: dict[str, Any] = {"argument": argument, "in": self.place, "name": name}
        if self.content:
            return {**found, "content": self.content}
        found |= {"style": self.style, "explode": self.explode}
        return {**found, "allow_reserved": True} if self.allow_reserved else found


def parameters_of(
    document: Document, place: Place, credentials: frozenset[tuple[str, str]], notes: list[Note]
) -> list[Parameter]:
    """Return the parameters of an operation that become arguments. Raises Unconvertible.

    Those of the path item are included unless the operation replaces them. ``credentials`` are the places and
    names of parameters that a credential fills. Placeholders without a parameter become required texts.
    """
    merged: dict[tuple[str, str], Parameter] = {}
    lists = ((place.item, place.pointer.rpartition("/")[0]), (place.operation, place.pointer))
    for owner, home in lists:
        given = owner.get("parameters") or []
        if not isinstance(given, list):
            raise Unconvertible(f"{home}/parameters", "The parameters are not a list")
        for number, each in enumerate(given):
            parameter = _parameter(document, each, f"{home}/parameters/{number}", notes)
            merged[parameter.name, parameter.place] = parameter
    placeholders = placeholders_of(place)
    found = [each for each in merged.values() if _is_argument(each, placeholders, credentials, notes)]
    declared = {each.name for each in found if each.place == "path"}
    for name in placeholders:
        if name not in declared:
            notes.append(
                Note(place.pointer, f"The placeholder {{{name}}} has no parameter: it takes any text")
            )
            schema = {"type": "string"}
            found.append(Parameter(name, "path", place.pointer, schema, True, "", style="simple"))
    return found


def placeholders_of(place: Place) -> list[str]:
    """Return the names of the placeholders in a path. Raises Unconvertible for a path that is not plain."""
    if "?" in place.path or "#" in place.path:
        raise Unconvertible(place.pointer, "Its path has a query or a fragment")
    found = PLACEHOLDER.findall(place.path)
    rest = PLACEHOLDER.sub("", place.path)
    if "{" in rest or "}" in rest or any(not name or name[0] in "+#./;?&" or "=" in name for name in found):
        raise Unconvertible(place.pointer, "Its path has a placeholder that can hold several segments")
    if len(found) != len(set(found)):
        raise Unconvertible(place.pointer, "Its path has the same placeholder twice")
    return found


def kind_of(document: Document, schema: Any) -> styles.Kind:
    """Return the kind of values that a schema describes, or "" for several kinds."""
    try:
        solved = document.solved(schema)
    except KeyError:
        return ""
    if not isinstance(solved, dict):
        return ""
    kinds = solved.get("type")
    listed = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    if len(listed) != 1 or listed[0] is None:
        return "object" if solved.keys() & _OBJECT_WORDS else "array" if "items" in solved else ""
    return {"array": "array", "object": "object"}.get(str(listed[0]), "primitive")  # type: ignore[return-value]


def is_deep(document: Document, schema: Any) -> bool:
    """Return True for a list, or an object with lists or objects inside."""
    if kind_of(document, schema) != "object":
        return True
    properties = document.solved(schema).get("properties")
    inner = properties.values() if isinstance(properties, dict) else ()
    return any(kind_of(document, each) in ("array", "object") for each in inner)


def _parameter(document: Document, given: Any, pointer: str, notes: list[Note]) -> Parameter:
    try:
        solved = document.solved(given)
    except KeyError as error:
        raise Unconvertible(pointer, f"The reference {error.args[0][:200]!r} leads nowhere") from None
    if not isinstance(solved, dict) or not isinstance(name := solved.get("name"), str) or not name:
        raise Unconvertible(pointer, "A parameter has no name")
    place = solved.get("in")
    if not isinstance(place, str) or place not in _DEFAULTS:
        raise Unconvertible(pointer, f"A parameter in {str(place)[:50]!r} does not exist")
    if place in ("header", "cookie") and not _NAME.fullmatch(name):
        raise Unconvertible(pointer, f"{name[:100]!r} cannot be the name of a {place}")
    home = given["$ref"] if isinstance(given.get("$ref"), str) else pointer
    schema, content, within = _schema(solved, home)
    style = str(solved.get("style") or _DEFAULTS[place])
    explode = solved.get("explode")
    sent: dict[str, Any] = {}
    if not content:
        explode = explode if isinstance(explode, bool) else style in ("form", "deepObject")
        if reason := styles.unsupported(place, style, explode, kind_of(document, schema)):
            raise Unconvertible(within, f"The parameter {name[:100]!r} cannot be sent: {reason}")
        if style == "matrix" and names.safe(name) != name:
            raise Unconvertible(within, f"The parameter {name[:100]!r} cannot be sent in the style 'matrix'")
        if style == "deepObject" and is_deep(document, schema):
            notes.append(Note(within, "OpenAPI does not define this; it is sent as 'name[member][0]'"))
        reserved = place == "query" and solved.get("allowReserved") is True
        sent = {"style": style, "explode": explode, "allow_reserved": reserved}
    required = place == "path" or solved.get("required") is True
    description = solved.get("description")
    return Parameter(name, place, within, schema, required, description, content=content, **sent)


def _schema(given: Mapping[str, Any], pointer: str) -> tuple[Any, str, str]:
    """Return the schema of a parameter, its content type if it has one, and the pointer to the schema."""
    content = given.get("content")
    if isinstance(content, dict) and content:
        kind, media = next(iter(content.items()))
        if "json" not in kind.lower():
            raise Unconvertible(pointer, f"A parameter of the type {kind[:100]!r} cannot be sent")
        schema = media.get("schema", {}) if isinstance(media, dict) else {}
        return schema, "application/json", f"{pointer}/content/{escaped(kind)}/schema"
    return given.get("schema", {}), "", f"{pointer}/schema"


def _is_argument(
    parameter: Parameter,
    placeholders: Iterable[str],
    credentials: frozenset[tuple[str, str]],
    notes: list[Note],
) -> bool:
    name = parameter.name.lower()
    if (parameter.place, name) in credentials:
        return False
    if parameter.place == "path" and parameter.name not in placeholders:
        return False
    if parameter.place != "header" or name in _DEFINED_ELSEWHERE:
        return parameter.place != "header"
    if _SET_BY_SERVER.fullmatch(name):
        notes.append(
            Note(parameter.pointer, f"The header {parameter.name} is set by this server, or not sent")
        )
        return False
    return True
