"""Tools and drafts of an upstream server, by the tool's name at that server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue.sources.upstream.definitions import TEXTS, digest, pin, values_of
from mcp_app.models import Draft, Tool, Upstream


def tools_of(row: Upstream) -> dict[str, Tool]:
    """Return the tools that were imported from a server and published."""
    found = Tool.objects.filter(request__upstream=row.name).order_by("name")
    return {str((tool.request or {}).get("tool")): tool for tool in found}


def drafts_of(row: Upstream) -> dict[str, Draft]:
    """Return the drafts of new tools of a server."""
    found = Draft.objects.filter(kind=Tool.KIND, entry_id=None, values__request__upstream=row.name)
    return {str(draft.values["request"].get("tool")): draft for draft in found}


def changes_of(row: Upstream) -> dict[int, Draft]:
    """Return the drafts of published tools of a server by the tool's primary key."""
    keys = [tool.pk for tool in tools_of(row).values()]
    found = Draft.objects.filter(kind=Tool.KIND, entry_id__in=keys)
    return {draft.entry_id: draft for draft in found if draft.entry_id is not None}


def columns_of(row: Upstream, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the columns of a tool for a listed definition."""
    values = values_of(item)
    parts = {name: digest(values[name]) for name in TEXTS}
    request = {"upstream": row.name, "tool": item["name"], "definition": pin(item), "parts": parts}
    return {**values, "request": request}


def changed_columns(row: Upstream, tool: Tool, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a published tool after a change at its server. An administrator's words stay."""
    values, parts = columns_of(row, item), (tool.request or {}).get("parts")
    known = parts if isinstance(parts, dict) else {}
    for name in TEXTS:
        if digest(getattr(tool, name)) != known.get(name):
            del values[name]
    return values
