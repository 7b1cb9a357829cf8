"""Import of tools of a server as drafts, or as tools in one revision."""

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
from mcp_app.catalogue.upstreams.refreshing import listed_tools
from mcp_app.catalogue.upstreams.tools import changes_of, columns_of, drafts_of, tools_of
from mcp_app.models import Tool, Upstream

NO_SUCH: Final = "The server lists no such tool."
THERE: Final = "It is a tool or a draft already."


@dataclass(slots=True)
class Imported:
    """The outcome of an import: names of drafts or of published tools, and reasons by tool of the server."""

    drafts: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    revision: int = 0


def chosen(row: Upstream, patterns: Collection[str] = (), *, every: bool = False) -> list[str]:
    """Return the listed tools that fit a pattern such as ``search_*``, or all with ``every``."""
    names = listed_tools(row)
    return [name for name in names if every or any(fnmatchcase(name, pattern) for pattern in patterns)]


def import_tools(
    *,
    upstream: Upstream,
    tools: Iterable[str],
    actor: Any,
    names: Mapping[str, str] | None = None,
    publish: bool = False,
) -> Imported:
    """Import listed tools, by their names at the server. ``names`` replaces proposed names.

    A tool that cannot be imported is skipped with a reason.
    """
    outcome = Imported()
    with transaction.atomic():
        revisions.lock()
        listed = listed_tools(upstream)
        proposed = names_of(listed, upstream.prefix)
        there = tools_of(upstream).keys() | drafts_of(upstream).keys()
        changes: list[EntryChange] = []
        for name in dict.fromkeys(tools):
            if name not in listed or name in there:
                outcome.skipped[name] = THERE if name in there else NO_SUCH
                continue
            values = {"name": (names or {}).get(name) or proposed[name], **columns_of(upstream, listed[name])}
            change = EntryChange(kind=Tool, entry=None, values=values, source=UPSTREAM)
            try:
                if publish:
                    services.check_change(change)
                    changes.append(change)
                else:
                    note = f"Imported from {upstream.name}: {name}"[:500]
                    drafts.save_draft(kind=Tool, actor=actor, source=UPSTREAM, note=note, **values)
                    outcome.drafts.append(str(values["name"]))
            except ValidationError as error:
                outcome.skipped[name] = " ".join(error.messages)
        if changes:
            why = f"Imported from {upstream.name}"
            outcome.revision = services.change_entries(changes=changes, actor=actor, why=why)
            outcome.published = [str(each.values["name"]) for each in changes]
    return outcome


def publish_pending(*, upstream: Upstream, actor: Any) -> int:
    """Publish the drafts of new and changed tools of a server. Return the revision, or 0 without drafts."""
    waiting = [*drafts_of(upstream).values(), *changes_of(upstream).values()]
    if not waiting:
        return 0
    return drafts.publish_drafts(drafts=waiting, actor=actor, why=f"Approved for {upstream.name}")
