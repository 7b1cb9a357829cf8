"""A name and arguments proposed for a pasted request. Its query and its JSON body contain the arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote_plus

from mcp_app.catalogue.sources.http.entered import Entered
from mcp_app.catalogue.sources.http.openapi.names import MAX_NAME, slug
from mcp_app.catalogue.sources.http.plan import PLACEHOLDER

_ADDRESS: Final = re.compile(r"([^?#]*)\?([^#]*)(#.*)?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
# Parts of a path that do not name a thing: versions, numbers, long identifiers and placeholders.
_UNNAMED: Final = re.compile(r"v\d[\d.]*|api|\d+|[0-9a-fA-F-]{16,}|.*\{.*", re.IGNORECASE)
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


def with_arguments(entered: Entered) -> tuple[Entered, dict[str, Any]]:
    """Return the request with a placeholder for each value, and the values by argument.

    Values of the query, and texts, numbers and booleans at the top of a JSON body become arguments.
    """
    values: dict[str, Any] = {}
    if match := _ADDRESS.fullmatch(entered.address):
        query = "&".join(_pair(pair, values) for pair in match[2].split("&"))
        entered = replace(entered, address=f"{match[1]}?{query}{match[3] or ''}")
    if entered.body_mode == "json":
        entered = replace(entered, body=_body(entered.body, values))
    return entered, values


def with_values(schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose arguments have these values as defaults, and their types."""
    members = {
        name: {**member, "type": _TYPES[type(values[name])], "default": values[name]}
        if name in values
        else member
        for name, member in schema.get("properties", {}).items()
    }
    needed = [name for name in schema.get("required", ()) if name not in values]
    rest = {name: member for name, member in schema.items() if name not in ("properties", "required")}
    return {**rest, "properties": members, **({"required": needed} if needed else {})}


def proposed_name(entered: Entered) -> str:
    """Return a tool name made from the method and the path, such as ``get_orders``, or "" without a path.

    Versions, numbers and placeholders of the path are left out.
    """
    path = entered.address.partition("://")[2].partition("/")[2].partition("?")[0].partition("#")[0]
    words = [slug(part) for part in path.split("/") if not _UNNAMED.fullmatch(part)]
    named = "_".join(filter(None, words))
    return f"{entered.method.lower()}_{named}"[:MAX_NAME].rstrip("_") if named else ""


def _pair(pair: str, values: dict[str, Any]) -> str:
    name, mark, value = pair.partition("=")
    argument = unquote_plus(name)
    if not mark or not _is_free(argument, value, values):
        return pair
    values[argument] = unquote_plus(value)
    return f"{name}={{{argument}}}"


def _body(text: str, values: dict[str, Any]) -> str:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return text  # The form explains the error beside the field.
    if not isinstance(body, dict):
        return text
    for name, value in body.items():
        if type(value) in _TYPES and _is_free(name, value, values):
            values[name] = value
            body[name] = f"{{{name}}}"
    return json.dumps(body, indent=2, ensure_ascii=False)


def _is_free(name: str, value: Any, values: Mapping[str, Any]) -> bool:
    is_placeholder = isinstance(value, str) and PLACEHOLDER.search(value) is not None
    return _NAME.fullmatch(name) is not None and name not in values and not is_placeholder
