"""Definitions of tools as another server lists them: their values here, their digest, and their changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.sources.checking import UnfitError
from mcp_app.catalogue.sources.http.openapi.names import tool_names
from mcp_app.catalogue.sources.tool_checks import HINTS, check_output
from mcp_app.protocol.messages.icons import check_icon

MAX_TOOL_NAME: Final = 256
TEXTS: Final = ("title", "description", "icons")
# The members that an approval covers. All others of a definition are not used.
_PINNED: Final = (
    "name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons",
)  # fmt: skip
_DOMAIN: Final = "mcp-tool-definition\0"
# Keywords that change no decision about arguments.
_WORDS: Final = frozenset(("title", "description", "default", "examples", "$comment", "deprecated"))


def is_usable(item: Mapping[str, Any]) -> bool:
    """Return True for a definition that names a tool with an input schema."""
    name = item.get("name")
    return (
        isinstance(name, str) and 0 < len(name) <= MAX_TOOL_NAME and isinstance(item.get("inputSchema"), dict)
    )


def names_of(items: Mapping[str, Mapping[str, Any]], prefix: str) -> dict[str, str]:
    """Return the name of each tool here by its name at the server (INT-24)."""
    return tool_names({name: {"operationId": name} for name in items}, prefix)


def pin(item: Mapping[str, Any]) -> str:
    """Return the digest of a definition, independent of the order of members (INT-67)."""
    meta = item.get("_meta")
    found = {name: item[name] for name in _PINNED if name in item}
    if isinstance(meta, dict) and "ui" in meta:
        found["_meta.ui"] = meta["ui"]
    return hashlib.sha256(_DOMAIN.encode() + _canonical(found)).hexdigest()


def digest(value: Any) -> str:
    """Return a short digest of a text or list."""
    return hashlib.sha256(_canonical(value)).hexdigest()[:16]


def values_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a tool for a definition. Parts that cannot be announced are left out."""
    given = item.get("annotations")
    told = given if isinstance(given, dict) else {}
    hints = {name: value for name, value in told.items() if name in HINTS and type(value) is bool}
    title = _text(item.get("title")) or _text(told.get("title"))
    output = item.get("outputSchema")
    return {
        "title": title[:200],
        "description": _text(item.get("description")),
        "icons": _icons(item.get("icons")),
        "input_schema": item["inputSchema"],
        "output_schema": output if _is_announced(output) else None,
        "annotations": {
            name: value for name, value in hints.items() if name in HINTS and type(value) is bool
        },
    }


def breaks(old: Any, new: Any) -> bool:
    """Return True unless calls made by the old input schema certainly fit the new one.

    Optional properties may be added, and required ones may become optional. Texts do not count.
    """
    before, after = _constraints(old), _constraints(new)
    if before == after:
        return False
    if not isinstance(before, dict) or not isinstance(after, dict):
        return True
    members, wanted = before.pop("properties", {}), after.pop("properties", {})
    required, needed = before.pop("required", []), after.pop("required", [])
    if before != after or not all(isinstance(each, dict) for each in (members, wanted)):
        return True
    if not all(isinstance(each, list) for each in (required, needed)):
        return True
    kept = all(name in wanted and wanted[name] == member for name, member in members.items())
    return not kept or any(name not in required for name in needed)


def _constraints(schema: Any) -> Any:
    """Return a schema without its texts. A property may have the name of a keyword."""
    if isinstance(schema, list):
        return [_constraints(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, dict):
            found[name] = {key: _constraints(member) for key, member in value.items()}
        elif name in ("enum", "const"):
            found[name] = value
        elif name not in _WORDS:
            found[name] = _constraints(value)
    return found


def _is_announced(schema: Any) -> bool:
    try:
        check_output(schema)
    except UnfitError:
        return False
    return bool(schema)


def _icons(found: Any) -> list[Any]:
    usable = []
    for icon in found[:10] if isinstance(found, list) else ():
        try:
            check_icon(icon)
        except ValueError:
            continue
        usable.append(icon)
    return usable


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
