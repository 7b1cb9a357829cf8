"""Data for the page of the API, read from the OpenAPI document.

It consists of the operations by tag, each with its fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

Document = Mapping[str, Any]
REFERENCE = "#/components/schemas/"
# Sample values by JSON type.
SAMPLES: dict[str, Any] = {"boolean": True, "integer": 1, "number": 1.0, "array": [], "object": {}}


@dataclass(frozen=True)
class Field:
    """A parameter of an operation, or a field of a body."""

    name: str
    kind: str
    required: bool
    text: SafeString
    choices: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class DocumentedResponse:
    """The fields of an operation's response with a certain status, or of its errors."""

    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Operation:
    """An HTTP method at a path."""

    key: str
    method: str
    path: str
    title: SafeString
    text: SafeString
    parameters: tuple[Field, ...]
    media: tuple[str, ...]
    example: str
    fields: tuple[Field, ...]
    answers: tuple[DocumentedResponse, ...]


def by_tag(document: Document) -> dict[str, list[Operation]]:
    """Group all operations of a document by tag."""
    found: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append(_operation(document, path, method, operation))
    return found


def _operation(document: Document, path: str, method: str, operation: Document) -> Operation:
    bodies = operation.get("requestBody", {}).get("content", {})
    body: Document = next((each.get("schema", {}) for each in bodies.values()), {})
    return Operation(
        key=operation["operationId"],
        method=method.upper(),
        path=path,
        title=prose(operation.get("summary", "")),
        text=prose(operation.get("description", "")),
        parameters=tuple(_parameter(document, each) for each in operation.get("parameters", ())),
        media=tuple(bodies),
        example=json.dumps(_example(document, body), indent=2) if bodies else "",
        fields=tuple(_fields(document, body, sent=True)),
        answers=tuple(_answer(document, status, answer) for status, answer in operation["responses"].items()),
    )


def _parameter(document: Document, parameter: Document) -> Field:
    schema = parameter["schema"]
    # If the parameter has no default, the page offers to send none of the choices.
    return _field(
        document,
        parameter["name"],
        {**schema, **parameter},
        parameter.get("required", False),
        parameter["in"],
    )


def _answer(document: Document, status: str, answer: Document) -> DocumentedResponse:
    schema: Document = next((each.get("schema", {}) for each in answer.get("content", {}).values()), {})
    fields = tuple(_fields(document, schema))
    what = "Response fields" if fields else "Response"
    return DocumentedResponse(f"{what} of an error" if status == "default" else f"{what}: {status}", fields)


def _fields(document: Document, schema: Document, sent: bool = False) -> Iterable[Field]:
    """Yield the fields of an object. For a page of a list, yield the fields of its rows."""
    whole = _resolved(document, schema)
    rows = whole.get("properties", {}).get("results")
    whole = _resolved(document, rows["items"]) if rows else whole
    required = whole.get("required", ())
    for name, described in whole.get("properties", {}).items():
        if not (sent and described.get("readOnly")):
            yield _field(document, name, described, sent and name in required)


def _field(document: Document, name: str, described: Document, required: bool, place: str = "") -> Field:
    schema = _resolved(document, described.get("schema", described))
    text = described.get("description", schema.get("description", ""))
    choices = tuple(str(each) for each in schema.get("enum", ()) if each not in ("", None))
    # The description would repeat the choices, so it is left out.
    return Field(name, _kind(document, schema), required, prose("" if choices else text), choices, place)


def _kind(document: Document, schema: Document) -> str:
    kinds = schema.get("type", "")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    words = [schema.get("format", kind) if kind == "string" else kind for kind in kinds if kind != "null"]
    if words == ["array"]:
        inner = _kind(document, _resolved(document, schema.get("items", {})))
        words = [f"list of {inner}" if inner else "list"]
    return " or ".join([*words, *(["null"] if "null" in kinds else [])])


def _resolved(document: Document, schema: Document) -> Document:
    """Return the schema that a reference points to, or the first alternative of a composed schema."""
    for _ in range(5):
        several = schema.get("allOf") or schema.get("oneOf") or schema.get("anyOf")
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].removeprefix(REFERENCE)]
        elif several:
            schema = {**several[0], **{key: schema[key] for key in ("description",) if key in schema}}
    return schema


def _example(document: Document, schema: Document) -> Any:
    """Return a body with sample values for the required fields."""
    whole = _resolved(document, schema)
    properties = whole.get("properties", {})
    needed = [name for name in whole.get("required", ()) if not properties[name].get("readOnly")]
    return {name: _sample(_resolved(document, properties[name])) for name in needed}


def _sample(schema: Document) -> Any:
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    return SAMPLES.get(kind if isinstance(kind, str) else "", "")


def prose(text: str) -> SafeString:
    """Return text as HTML. Parts in backticks become ``code`` elements."""
    parts = enumerate(text.split("`"))
    pieces = ((format_html("<code>{}</code>", each) if at % 2 else each,) for at, each in parts)
    return format_html_join("", "{}", pieces)
