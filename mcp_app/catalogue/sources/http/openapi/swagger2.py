"""Conversion of Swagger 2.0 documents to the form of OpenAPI 3.

Schemas stay at ``#/definitions``, so references to them stay true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = Mapping[str, Any]

_METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
# The members of a parameter that belong to its schema in OpenAPI 3.
_SCHEMA: Final = (
    "type", "format", "items", "default", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum",
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "enum", "multipleOf",
)  # fmt: skip
_STYLES: Final = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}
_FLOWS: Final = {"application": "clientCredentials", "accessCode": "authorizationCode"}
_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"


def upgraded(root: Json) -> dict[str, Any]:
    """Return the document with ``paths``, ``servers`` and ``securitySchemes`` as in OpenAPI 3."""
    paths = root.get("paths") or {}
    return {
        **root,
        "paths": {path: _item(root, item) for path, item in paths.items() if isinstance(item, dict)},
        "servers": _servers(root),
        "components": {"securitySchemes": _security_schemes(root)},
    }


def _servers(root: Json) -> list[dict[str, Any]]:
    host, base = root.get("host"), str(root.get("basePath") or "")
    if not isinstance(host, str) or not host:
        return [{"url": base or "/"}]
    schemes = [str(each) for each in _list(root.get("schemes"))] or ["https"]
    # https before http: the first server is proposed.
    ordered = sorted((each for each in schemes if each in ("http", "https")), reverse=True)
    return [{"url": f"{scheme}://{host}{base}"} for scheme in ordered]


def _item(root: Json, item: Json) -> dict[str, Any]:
    shared = _list(item.get("parameters"))
    found: dict[str, Any] = {name: value for name, value in item.items() if name not in _METHODS}
    found.pop("parameters", None)
    for method in _METHODS:
        if isinstance(operation := item.get(method), dict):
            found[method] = _operation(root, operation, shared)
    return found


def _operation(root: Json, operation: Json, shared: list[Any]) -> dict[str, Any]:
    merged: dict[tuple[str, str], Json] = {}
    unsolved: list[Any] = []
    for given in (*shared, *_list(operation.get("parameters"))):
        parameter = _solved(root, given)
        if isinstance(parameter, dict) and isinstance(parameter.get("name"), str):
            merged[parameter["name"], str(parameter.get("in"))] = parameter
        else:
            unsolved.append(given)
    parameters = [
        _parameter(each) for (_, place), each in merged.items() if place not in ("body", "formData")
    ]
    found = {**operation, "parameters": [*parameters, *unsolved]}
    consumes = operation.get("consumes") if "consumes" in operation else root.get("consumes")
    if body := _body(merged, [str(each) for each in _list(consumes)]):
        found["requestBody"] = body
    produces = operation.get("produces") if "produces" in operation else root.get("produces")
    found["responses"] = _responses(operation.get("responses"), [str(each) for each in _list(produces)])
    return found


def _parameter(given: Json) -> dict[str, Any]:
    found = {
        name: given[name] for name in ("name", "in", "description", "required", "deprecated") if name in given
    }
    found["schema"] = _schema(given)
    if given.get("type") == "array":
        found |= _style(given, str(given.get("in")))
    return found


def _schema(given: Json) -> dict[str, Any]:
    schema = {name: given[name] for name in _SCHEMA if name in given}
    if schema.get("type") == "file":
        schema |= {"type": "string", "format": "binary"}
    if given.get("x-nullable") is True:
        schema["nullable"] = True
    return schema


def _style(given: Json, place: str) -> dict[str, Any]:
    form = str(given.get("collectionFormat") or "csv")
    if form == "multi":
        return {"style": "form", "explode": True}
    default = "form" if place in ("query", "formData") else "simple"
    # An unknown format stays a style, which the conversion then refuses by name.
    return {"style": default if form == "csv" else _STYLES.get(form, form), "explode": False}


def _body(merged: Mapping[tuple[str, str], Json], consumes: list[str]) -> dict[str, Any] | None:
    bodies = [each for (_, place), each in merged.items() if place == "body"]
    fields = [each for (_, place), each in merged.items() if place == "formData"]
    if bodies:
        body = bodies[0]
        types = consumes or ["application/json"]
        content = {kind: {"schema": body.get("schema", {})} for kind in types}
        return {
            "content": content,
            "required": body.get("required", False),
            "description": body.get("description", ""),
            "x-name": body.get("name", ""),
        }
    if not fields:
        return None
    with_file = any(each.get("type") == "file" for each in fields)
    kind = _MULTIPART if with_file or (_MULTIPART in consumes and _FORM not in consumes) else _FORM
    properties = {
        str(each["name"]): {**_schema(each), "description": each.get("description", "")} for each in fields
    }
    required = [each["name"] for each in fields if each.get("required") is True]
    schema = {"type": "object", "properties": properties, "required": required}
    encoding = {str(each["name"]): _style(each, "formData") for each in fields if each.get("type") == "array"}
    return {"content": {kind: {"schema": schema, "encoding": encoding}}, "required": bool(required)}


def _responses(responses: Any, produces: list[str]) -> dict[str, Any]:
    if not isinstance(responses, dict):
        return {}
    found: dict[str, Any] = {}
    for status, response in responses.items():
        if isinstance(response, dict) and "schema" in response:
            kinds = produces or ["application/json"]
            found[status] = {**response, "content": {kind: {"schema": response["schema"]} for kind in kinds}}
        else:
            found[status] = response
    return found


def _security_schemes(root: Json) -> dict[str, Any]:
    given = root.get("securityDefinitions")
    return {name: _scheme(each) for name, each in given.items()} if isinstance(given, dict) else {}


def _scheme(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    if given.get("type") == "basic":
        return {**given, "type": "http", "scheme": "basic"}
    if given.get("type") == "oauth2":
        flow = str(given.get("flow"))
        return {**given, "flows": {_FLOWS.get(flow, flow): given}}
    return given


def _solved(root: Json, given: Any) -> Any:
    """Return a parameter, or the target of its reference ``#/parameters/name``."""
    if not isinstance(given, dict) or not isinstance(reference := given.get("$ref"), str):
        return given
    parameters = root.get("parameters")
    name = reference.removeprefix("#/parameters/")
    return parameters.get(name) if isinstance(parameters, dict) and name != reference else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
