"""Entries and drafts of an upstream server, by the keys of the items at that server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue.sources.upstream.definitions import TEXTS, digest, pin, ui_of, values_of
from mcp_app.catalogue.sources.upstream.kinds import KINDS, Item, ItemKind, key_of
from mcp_app.models import Draft, Tool, Upstream

_KINDS = {kind.row.KIND: kind for kind in KINDS}


def entries_of(row: Upstream) -> dict[str, Any]:
    """Return the entries that were imported from a server and published."""
    return {
        key_of(kind, str((entry.request or {}).get(kind.noun))): entry
        for kind in KINDS
        for entry in kind.row.objects.filter(request__upstream=row.name).order_by(kind.row.KEY)
    }


def tools_of(row: Upstream) -> dict[str, Tool]:
    """Return the tools that were imported from a server and published, by their names at the server."""
    return {key: entry for key, entry in entries_of(row).items() if isinstance(entry, Tool)}


def drafts_of(row: Upstream) -> dict[str, Draft]:
    """Return the drafts of new entries of a server."""
    found = Draft.objects.filter(entry_id=None, values__request__upstream=row.name)
    return {_key(_KINDS[draft.kind], draft.values["request"]): draft for draft in found}


def changes_of(row: Upstream) -> dict[str, Draft]:
    """Return the drafts of published entries of a server."""
    entries = {(entry.KIND, entry.pk): key for key, entry in entries_of(row).items()}
    found = Draft.objects.filter(kind__in=_KINDS, entry_id__in={pk for _, pk in entries})
    keys = ((draft, entries.get((draft.kind, draft.entry_id or 0))) for draft in found)
    return {key: draft for draft, key in keys if key is not None}


def columns_of(row: Upstream, item: Item) -> dict[str, Any]:
    """Return the values of the columns of an entry for a listed definition, without its key."""
    values = values_of(item)
    parts = {name: digest(values[name]) for name in TEXTS}
    request: dict[str, Any] = {
        "upstream": row.name,
        item.kind.noun: item.name,
        "definition": pin(item),
        "parts": parts,
    }
    if ui := ui_of(item):
        request["ui"] = ui
    if item.kind.row.KEY != "name":
        values["name"] = str(item.definition["name"])[:200]
    return {**values, "request": request}


def changed_columns(row: Upstream, entry: Any, item: Item) -> dict[str, Any]:
    """Return the values of a published entry after a change at its server. An administrator's words stay."""
    values, parts = columns_of(row, item), (entry.request or {}).get("parts")
    known = parts if isinstance(parts, dict) else {}
    for name in TEXTS:
        if digest(getattr(entry, name)) != known.get(name):
            del values[name]
    return values


def may(actor: Any, action: str, kind: type[Any]) -> bool:
    """Return True if the actor may add, change or delete entries of a kind."""
    return actor is None or actor.has_perm(f"mcp_app.{action}_{kind._meta.model_name}")


def _key(kind: ItemKind, request: Mapping[str, Any]) -> str:
    return key_of(kind, str(request.get(kind.noun)))
