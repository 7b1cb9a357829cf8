"""Import of what a server lists as drafts, or as entries in one revision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import drafts, revisions, services
from mcp_app.catalogue.changes.services import EntryChange
from mcp_app.catalogue.sources.upstream.definitions import names_of
from mcp_app.catalogue.sources.upstream.source import UPSTREAM
from mcp_app.catalogue.upstreams.entries import changes_of, columns_of, drafts_of, entries_of, may
from mcp_app.catalogue.upstreams.refreshing import listed_items
from mcp_app.models import Upstream

NO_SUCH: Final = "The server does not list it."
THERE: Final = "It is in the catalogue or a draft already."


@dataclass(slots=True)
class Imported:
    """The outcome of an import: names of drafts or of published entries, and reasons by key."""

    drafts: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    revision: int = 0


def chosen(row: Upstream, patterns: Collection[str] = (), *, every: bool = False) -> list[str]:
    """Return the keys of the listed items that fit a pattern such as ``search_*``, or all with ``every``.

    Patterns are compared with the names and URIs at the server.
    """
    items = listed_items(row)
    return [
        key
        for key, item in items.items()
        if every or any(fnmatchcase(item.name, pattern) for pattern in patterns)
    ]


def import_items(
    *,
    upstream: Upstream,
    keys: Iterable[str],
    actor: Any,
    names: Mapping[str, str] | None = None,
    publish: bool = False,
) -> Imported:
    """Import listed items by their keys. ``names`` replaces proposed names and URIs.

    An item that cannot be imported is skipped with a reason.
    """
    outcome = Imported()
    with transaction.atomic():
        revisions.lock()
        listed = listed_items(upstream)
        proposed = names_of(listed, upstream.name, upstream.prefix)
        there = entries_of(upstream).keys() | drafts_of(upstream).keys()
        changes: list[EntryChange] = []
        for key in dict.fromkeys(keys):
            if key not in listed or key in there:
                outcome.skipped[key] = THERE if key in there else NO_SUCH
                continue
            kind, item = listed[key].kind.row, listed[key]
            if not may(actor, "add", kind):
                outcome.skipped[key] = f"You may not add a {item.kind.noun}."
                continue
            name = (names or {}).get(key) or proposed[key]
            values = {**columns_of(upstream, item), kind.KEY: name}
            try:
                if publish:
                    change = EntryChange(kind=kind, entry=None, values=values, source=UPSTREAM)
                    services.check_change(change)
                    changes.append(change)
                else:
                    note = f"Imported from {upstream.name}: {item.name}"[:500]
                    drafts.save_draft(kind=kind, actor=actor, source=UPSTREAM, note=note, **values)
                    outcome.drafts.append(name)
            except ValidationError as error:
                outcome.skipped[key] = " ".join(error.messages)
        if changes:
            why = f"Imported from {upstream.name}"
            outcome.revision = services.change_entries(changes=changes, actor=actor, why=why)
            outcome.published = [str(each.values[each.kind.KEY]) for each in changes]
    return outcome


def publish_pending(*, upstream: Upstream, actor: Any) -> int:
    """Publish the drafts of new and changed entries of a server. Return the revision, or 0 without drafts."""
    waiting = [*drafts_of(upstream).values(), *changes_of(upstream).values()]
    if not waiting:
        return 0
    return drafts.publish_drafts(drafts=waiting, actor=actor, why=f"Approved for {upstream.name}")
