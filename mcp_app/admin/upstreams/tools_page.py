"""Data of the page of a server: its tools, the changes since their approval, and its availability."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.urls import reverse

from mcp_app.admin.markup import badge, diff, relative
from mcp_app.catalogue.sources.upstream.definitions import names_of, pin
from mcp_app.catalogue.upstreams.refreshing import instructions_of, listed_tools
from mcp_app.catalogue.upstreams.tools import changed_columns, changes_of, drafts_of, tools_of
from mcp_app.models import Tool, Upstream
from mcp_app.upstreams import health

MOST_SHOWN: Final = 500
MOST_CHANGES: Final = 50
TONES: Final = {"available": "good", "unavailable": "bad", "refused": "warn"}
_STATES: Final = {
    "new": "plain",
    "draft": "info",
    "tool": "good",
    "changed": "warn",
    "gone": "bad",
    "held": "bad",
}


def context_of(row: Upstream) -> dict[str, Any]:
    """Return the template context of a server's page."""
    items, tools, drafts = listed_tools(row), tools_of(row), drafts_of(row)
    changes = changes_of(row)
    names = names_of(items, row.prefix)
    shown = [
        _shown(row, name, item, names[name], tools.get(name), is_draft=name in drafts)
        for name, item in list(items.items())[:MOST_SHOWN]
    ]
    gone = [
        {"name": name, "tool": tool.name, "url": _url(tool), "state": "gone", "badge": badge("gone", "bad")}
        for name, tool in tools.items()
        if name not in items
    ]
    return {
        "row": row,
        "listed": [*gone, *shown],
        "number": len(items),
        "not_shown": max(0, len(items) - MOST_SHOWN),
        "tools": tools,
        "waiting": len(drafts) + len(changes),
        "changes": _changes(row, items, tools),
        "instructions": instructions_of(row),
        "health": health_of(row),
    }


def health_of(row: Upstream) -> dict[str, Any]:
    """Return the last outcome of a request to a server, by any process."""
    found = health.of(row.pk)
    at = datetime.fromtimestamp(found.at, UTC) if found.at else None
    return {
        "state": found.state,
        "badge": badge(found.state, TONES.get(found.state, "plain")),
        "text": found.text,
        "kind": found.kind,
        "at": relative(at, "never"),
    }


def _shown(
    row: Upstream, name: str, item: dict[str, Any], proposed: str, tool: Tool | None, *, is_draft: bool
) -> dict[str, Any]:
    state = "draft" if is_draft else "new"
    if tool is not None:
        is_same = pin(item) == (tool.request or {}).get("definition")
        state = "tool" if is_same else "held" if name in row.held else "changed"
    return {
        "name": name,
        "tool": tool.name if tool is not None else proposed,
        "url": _url(tool) if tool is not None else "",
        "description": str(item.get("description") or "")[:300],
        "state": state,
        "badge": badge("calls refused" if state == "held" else state, _STATES[state]),
        "hints": [hint for hint in ("readOnlyHint", "destructiveHint") if _hint(item, hint)],
    }


def _hint(item: dict[str, Any], name: str) -> bool:
    annotations = item.get("annotations")
    return isinstance(annotations, dict) and annotations.get(name) is True


def _changes(row: Upstream, items: dict[str, Any], tools: dict[str, Tool]) -> list[dict[str, Any]]:
    """Return the differences between the approved definitions and those of the server."""
    found = []
    for name, tool in tools.items():
        item = items.get(name)
        if item is None or pin(item) == (tool.request or {}).get("definition"):
            continue
        new = {key: value for key, value in changed_columns(row, tool, item).items() if key != "request"}
        old = {key: getattr(tool, key) for key in new}
        found.append(
            {
                "name": name,
                "tool": tool.name,
                "url": _url(tool),
                "held": name in row.held,
                "lines": diff(old, new),
            }
        )
    return found[:MOST_CHANGES]


def _url(tool: Tool) -> str:
    return reverse("admin:mcp_app_tool_change", args=[tool.pk])
