"""Arguments of an HTTP tool as rows: name, type, place, description, example and default.

A row edits one property of the input schema. Whatever else the property has stays. The place of an argument
is where its placeholder is written. Without a placeholder, it is the place that the row names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.catalogue.schemas.strict_json import parse_json
from mcp_app.catalogue.sources.http.entered import EnteredError
from mcp_app.catalogue.sources.http.plan import RequestPlan, is_leaf, leaves

KINDS: Final = ("string", "integer", "number", "boolean", "array", "object")
PLACES: Final = ("query", "header", "cookie", "body")
_ORDER: Final = ("path", "query", "header", "cookie")
FIELD: Final = "arguments_rows"
_OWN: Final = frozenset(("type", "description", "default", "examples"))
Change = Callable[[str, Mapping[str, Any]], dict[str, Any]]
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Row:
    """An argument. ``place`` is the place that its row names, or "" if its placeholder is written.

    ``kind`` is a JSON type, or "" for a type that only JSON can describe. ``example`` and ``default`` are the
    entered texts.
    """

    name: str
    place: str = ""
    kind: str = "string"
    required: bool = False
    description: str = ""
    example: str = ""
    default: str = ""
    found: str = ""


def rows_of(plan: RequestPlan, schema: Mapping[str, Any], named: Mapping[str, str]) -> list[Row]:
    """Return the rows for the arguments of a plan. ``named`` are the places that rows name."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    found = []
    for name in plan.arguments():
        given = properties.get(name)
        prop: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        examples = prop.get("examples")
        first = examples[0] if isinstance(examples, list) and examples else None
        found.append(
            Row(
                name=name,
                place=named.get(name, ""),
                kind=kind_of(prop),
                required=name in required,
                description=str(prop.get("description", "")),
                example=_shown(first),
                default=_shown(prop.get("default")),
                found=_place(plan, name),
            )
        )
    return found


def kind_of(prop: Mapping[str, Any]) -> str:
    """Return the type of a property, or "" if a row cannot show it."""
    kind = prop.get("type")
    return kind if isinstance(kind, str) and kind in KINDS else ""


def named_places(rows: Sequence[Row]) -> dict[str, str]:
    """Return the places that rows name, by argument."""
    return {row.name: row.place for row in rows if row.place}


def placed(request: dict[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return a request with the arguments that rows place. Raises EnteredError."""
    parameters = list(request.get("parameters", ()))
    body = dict(request.get("body") or {"mode": "none"})
    written = {each["argument"] for each in parameters} | {body.get("argument")}
    written |= set(leaves(body.get("template")))
    for row in rows:
        if not row.place:
            continue
        if row.name in written:
            raise EnteredError(FIELD, f"{row.name}: remove the placeholder, or the row that names its place.")
        written.add(row.name)
        if row.place == "body":
            body = _with_member(body, row.name)
        else:
            # A header as its line in the form makes it, so that a saved form is not a change.
            name = {"name": row.name} if row.place == "header" else {}
            parameters.append({"argument": row.name, "in": row.place, **name})
    parameters.sort(key=lambda each: _ORDER.index(each["in"]))
    found = {**request, "parameters": parameters}
    return {**found, "body": body} if body["mode"] != "none" else found


def with_rows(schema: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Any]:
    """Return an input schema with the values of rows. Raises EnteredError."""
    properties = dict(schema.get("properties", {}))
    required = dict.fromkeys(schema.get("required", ()))
    for row in rows:
        if row.name not in properties:
            continue
        properties[row.name] = _property(properties[row.name], row)
        if row.required:
            required[row.name] = None
        else:
            required.pop(row.name, None)
    return {**schema, "properties": properties, "required": [name for name in properties if name in required]}


def with_defaults(request: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request that sends the defaults of its schema for missing arguments.

    The requests of imported operations stay, because their servers know the defaults.
    """
    defaults = {} if request.get("operation") else _defaults(schema)

    def added(name: str, holder: Mapping[str, Any]) -> dict[str, Any]:
        return {**holder, "default": defaults[name]} if name in defaults else dict(holder)

    return _changed(request, added)


def without_defaults(request: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request without the defaults that its schema has as well."""
    defaults = _defaults(schema)

    def removed(name: str, holder: Mapping[str, Any]) -> dict[str, Any]:
        is_same = name in defaults and holder.get("default") == defaults[name]
        return {key: value for key, value in holder.items() if not is_same or key != "default"}

    return _changed(request, removed)


def _defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    found = properties if isinstance(properties, Mapping) else {}
    return {
        name: prop["default"]
        for name, prop in found.items()
        if isinstance(prop, Mapping) and prop.get("default") is not None
    }


def _changed(request: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Return a request with a change of each place of an argument that may have a default."""
    found = dict(request)
    if "parameters" in request:
        found["parameters"] = [
            change(each["argument"], each) if each["in"] != "path" else dict(each)
            for each in request["parameters"]
        ]
    if (body := request.get("body")) and "template" in body:
        found["body"] = {**body, "template": _changed_template(body["template"], change)}
    return found


def _changed_template(template: Any, change: Change) -> Any:
    if is_leaf(template):
        return change(template["$argument"], template)
    if isinstance(template, Mapping):
        return {name: _changed_template(member, change) for name, member in template.items()}
    return [_changed_template(each, change) for each in template] if isinstance(template, list) else template


def _with_member(body: dict[str, Any], name: str) -> dict[str, Any]:
    if body["mode"] == "none":
        body = {"mode": "json", "template": {}}
    template = body.get("template")
    if body["mode"] not in ("json", "form", "multipart") or not isinstance(template, dict):
        raise EnteredError(FIELD, f"{name}: this body has no members. Write its placeholder into the body.")
    if name in template:
        raise EnteredError(FIELD, f"{name}: the body has a member of this name already.")
    return {**body, "template": {**template, name: {"$argument": name}}}


def _property(given: Any, row: Row) -> dict[str, Any]:
    prop: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    if not row.kind or row.kind == kind_of(prop):
        found = {name: value for name, value in prop.items() if name not in _OWN or name == "type"}
    else:
        # The other keywords are about the former type.
        found = {"type": row.kind} | ({"title": prop["title"]} if "title" in prop else {})
    if row.kind == "array":
        found.setdefault("items", {"type": "string"})
    if row.description:
        found["description"] = row.description
    if (default := _value(row, "default", row.default)) is not None:
        found["default"] = default
    if (example := _value(row, "example", row.example)) is not None:
        found["examples"] = [example]
    return found


def _value(row: Row, field: str, text: str) -> Any:
    """Return an entered example or default with the type of its row. Raises EnteredError."""
    if not text.strip():
        return None
    try:
        match row.kind:
            case "string":
                return text
            case "boolean":
                return _WORDS[text.strip().lower()]
            case "array" if not text.strip().startswith("["):
                return [part.strip() for part in text.split(",")]
        value = parse_json(text)  # Refuses values that some database cannot store.
    except (KeyError, ValueError, ValidationError):
        raise _unfit(row, field, text) from None
    if row.kind in _SHAPES and (not isinstance(value, _SHAPES[row.kind]) or isinstance(value, bool)):
        raise _unfit(row, field, text)
    return value


def _unfit(row: Row, field: str, text: str) -> EnteredError:
    return EnteredError(FIELD, f"{row.name}: the {field} {text[:50]!r} is not {_EXPECTED[row.kind]}.")


_SHAPES: Final[Mapping[str, Any]] = {"integer": int, "number": (int, float), "array": list, "object": dict}
_EXPECTED: Final = {
    "integer": "an integer", "number": "a number", "boolean": "true or false",
    "array": "a list", "object": "a JSON object", "": "JSON",
}  # fmt: skip


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _place(plan: RequestPlan, name: str) -> str:
    return next((each.place for each in plan.parameters if each.argument == name), "body")
