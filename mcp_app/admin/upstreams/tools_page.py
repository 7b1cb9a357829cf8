"""Data of the page of a server: what it lists, the changes since their approval, and its availability."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.urls import reverse

from mcp_app.admin.markup import badge, diff, relative
from mcp_app.admin.upstreams import processes
from mcp_app.catalogue.sources.upstream.definitions import names_of, pin
from mcp_app.catalogue.sources.upstream.kinds import Item, kind_of
from mcp_app.catalogue.upstreams.entries import changed_columns, changes_of, drafts_of, entries_of
from mcp_app.catalogue.upstreams.refreshing import instructions_of, listed_items
from mcp_app.models import Upstream
from mcp_app.upstreams import health

MOST_SHOWN: Final = 500
MOST_CHANGES: Final = 50
TONES: Final = {"available": "good", "unavailable": "bad", "refused": "warn"}
# Users read "refused" as a call that was not allowed.
_WORDS: Final = {"refused": "failing", "unknown": "idle"}
_STATES: Final = {
    "new": "plain",
    "draft": "info",
    "published": "good",
    "changed": "warn",
    "gone": "bad",
    "held": "bad",
}


def context_of(row: Upstream) -> dict[str, Any]:
    """Return the template context of a server's page."""
    items, entries, drafts = listed_items(row), entries_of(row), drafts_of(row)
    changes = changes_of(row)
    names = names_of(items, row.name, row.prefix)
    shown = [
        _shown(row, item, names[key], entries.get(key), is_draft=key in drafts)
        for key, item in list(items.items())[:MOST_SHOWN]
    ]
    gone = [
        {
            "key": key,
            "name": str((entry.request or {}).get(kind_of(type(entry)).noun)),
            "kind": kind_of(type(entry)).noun,
            "entry": getattr(entry, entry.KEY),
            "url": _url(entry),
            "state": "gone",
            "badge": badge("gone", "bad"),
        }
        for key, entry in entries.items()
        if key not in items
    ]
    return {
        "row": row,
        "listed": [*gone, *shown],
        "number": len(items),
        "is_selectable": any(each["state"] == "new" for each in shown),
        "not_shown": max(0, len(items) - MOST_SHOWN),
        "entries": entries,
        "waiting": len(drafts) + len(changes),
        "changes": _changes(row, items, entries),
        "instructions": instructions_of(row),
        "health": health_of(row),
        "processes": processes.context_of(row),
    }


def health_of(row: Upstream) -> dict[str, Any]:
    """Return the last outcome of a request to a server, by any process."""
    found = health.of(row.pk)
    at = datetime.fromtimestamp(found.at, UTC) if found.at else None
    # An outcome is forgotten after a day without requests.
    is_new = found.state == "unknown" and row.listed_at is None
    words = "not read yet" if is_new else _WORDS.get(found.state, found.state)
    return {
        "state": found.state,
        "badge": badge(words, TONES.get(found.state, "plain")),
        "text": found.text,
        "kind": found.kind,
        "at": relative(at, "never"),
    }


def _shown(row: Upstream, item: Item, proposed: str, entry: Any, *, is_draft: bool) -> dict[str, Any]:
    state = "draft" if is_draft else "new"
    if entry is not None:
        is_same = pin(item) == (entry.request or {}).get("definition")
        state = "published" if is_same else "held" if item.key in row.held else "changed"
    return {
        "key": item.key,
        "name": item.name,
        "kind": item.kind.noun,
        "entry": getattr(entry, entry.KEY) if entry is not None else proposed,
        "url": _url(entry) if entry is not None else "",
        "description": str(item.definition.get("description") or "")[:300],
        "state": state,
        "badge": badge("calls refused" if state == "held" else state, _STATES[state]),
        "hints": [hint for hint in ("readOnlyHint", "destructiveHint") if _hint(item.definition, hint)],
    }


def _hint(item: Mapping[str, Any], name: str) -> bool:
    annotations = item.get("annotations")
    return isinstance(annotations, dict) and annotations.get(name) is True


def _changes(row: Upstream, items: dict[str, Item], entries: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the differences between the approved definitions and those of the server."""
    found = []
    for key, entry in entries.items():
        item = items.get(key)
        if item is None or pin(item) == (entry.request or {}).get("definition"):
            continue
        new = {name: value for name, value in changed_columns(row, entry, item).items() if name != "request"}
        old = {name: getattr(entry, name) for name in new}
        found.append(
            {
                "key": key,
                "kind": item.kind.noun,
                "entry": getattr(entry, entry.KEY),
                "url": _url(entry),
                "held": key in row.held,
                "lines": diff(old, new),
            }
        )
    return found[:MOST_CHANGES]


def _url(entry: Any) -> str:
    return reverse(f"admin:mcp_app_{entry._meta.model_name}_change", args=[entry.pk])
