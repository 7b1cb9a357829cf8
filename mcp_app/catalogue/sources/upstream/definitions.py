"""Definitions as another server lists them: their values here, their digest, and their changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.sources.checking import UnfitError
from mcp_app.catalogue.sources.content.checks import MAX_ARGUMENTS
from mcp_app.catalogue.sources.http.openapi.names import tool_names
from mcp_app.catalogue.sources.tool_checks import HINTS, check_output
from mcp_app.catalogue.sources.upstream.addresses import proposed
from mcp_app.catalogue.sources.upstream.kinds import KINDS, MAX_URI, PROMPTS, TOOLS, Item
from mcp_app.protocol.messages.icons import check_icon

TEXTS: Final = ("title", "description", "icons")
_DOMAIN: Final = "mcp-tool-definition\0"
# Keywords that change no decision about arguments.
_WORDS: Final = frozenset(("title", "description", "default", "examples", "$comment", "deprecated"))


def names_of(items: Mapping[str, Item], upstream: str, prefix: str) -> dict[str, str]:
    """Return the name or URI of each item here by its key (INT-24)."""
    found: dict[str, str] = {}
    for kind in KINDS:
        listed = {item.name: key for key, item in items.items() if item.kind is kind}
        if kind.key == "name":
            names = tool_names({name: {"operationId": name} for name in listed}, prefix)
        else:
            names = proposed(upstream, listed)
        found |= {listed[name]: here for name, here in names.items()}
    return found


def pin(item: Item) -> str:
    """Return the digest of a definition, independent of the order of members (INT-67)."""
    definition = item.definition
    meta = definition.get("_meta")
    found = {name: definition[name] for name in item.kind.pinned if name in definition}
    if isinstance(meta, dict) and "ui" in meta:
        found["_meta.ui"] = meta["ui"]
    return hashlib.sha256(_DOMAIN.encode() + _canonical(found)).hexdigest()


def ui_of(item: Item) -> str:
    """Return the URI of the page that shows the results of a tool (MCP apps), or ""."""
    found: Any = item.definition.get("_meta")
    for name in ("ui", "resourceUri"):
        found = found.get(name) if isinstance(found, dict) else None
    is_usable = item.kind is TOOLS and isinstance(found, str) and len(found) <= MAX_URI
    return found if is_usable else ""


def digest(value: Any) -> str:
    """Return a short digest of a text or list."""
    return hashlib.sha256(_canonical(value)).hexdigest()[:16]


def values_of(item: Item) -> dict[str, Any]:
    """Return the columns of an entry for a definition. Parts that cannot be announced are left out."""
    definition = item.definition
    values: dict[str, Any] = {
        "title": _text(definition.get("title"))[:200],
        "description": _text(definition.get("description")),
        "icons": _icons(definition.get("icons")),
    }
    if item.kind is TOOLS:
        return {**values, **_of_tool(definition, values["title"])}
    if item.kind is PROMPTS:
        return {**values, "arguments": _arguments(definition.get("arguments"))}
    return {
        **values,
        "mime_type": _text(definition.get("mimeType"))[:120],
        "annotations": _annotations(definition.get("annotations")),
    }


def _of_tool(definition: Mapping[str, Any], title: str) -> dict[str, Any]:
    given = definition.get("annotations")
    told = given if isinstance(given, dict) else {}
    output = definition.get("outputSchema")
    return {
        "title": title or _text(told.get("title"))[:200],
        "input_schema": definition["inputSchema"],
        "output_schema": output if _is_announced(output) else None,
        "annotations": {name: value for name, value in told.items() if name in HINTS and type(value) is bool},
    }


def _arguments(found: Any) -> list[dict[str, Any]]:
    arguments: dict[str, dict[str, Any]] = {}
    for each in found[:MAX_ARGUMENTS] if isinstance(found, list) else ():
        if isinstance(each, dict) and isinstance(each.get("name"), str) and 0 < len(each["name"]) <= 128:
            texts = {name: each[name] for name in ("name", "title", "description") if _text(each.get(name))}
            arguments[each["name"]] = {**texts, "required": each.get("required") is True}
    return list(arguments.values())


def _annotations(found: Any) -> dict[str, Any]:
    """Return the hints of a resource whose values clients understand."""
    told = found if isinstance(found, dict) else {}
    audience, priority = told.get("audience"), told.get("priority")
    known: dict[str, Any] = {}
    if isinstance(audience, list) and all(role in ("user", "assistant") for role in audience):
        known["audience"] = audience
    if isinstance(priority, int | float) and not isinstance(priority, bool) and 0 <= priority <= 1:
        known["priority"] = priority
    if _text(told.get("lastModified")):
        known["lastModified"] = told["lastModified"]
    return known


def breaks_entry(row: Any, item: Item) -> bool:
    """Return True unless requests made by a published entry certainly fit the listed definition."""
    if item.kind is TOOLS:
        return breaks(row.input_schema, item.definition["inputSchema"])
    if item.kind is not PROMPTS:
        return False
    before = {each["name"]: each for each in row.arguments}
    after = {each["name"]: each for each in _arguments(item.definition.get("arguments"))}
    added = [each for name, each in after.items() if name not in before or not before[name].get("required")]
    return not before.keys() <= after.keys() or any(each["required"] for each in added)


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
