"""Undo of switches: a new change restores the entries that one revision enabled or disabled."""

from __future__ import annotations

from typing import Any, Final

from django.db import transaction

from mcp_app.catalogue.changes import revisions, services
from mcp_app.catalogue.changes.rolling_back import entry_now
from mcp_app.catalogue.changes.services import ChangedMeanwhile
from mcp_app.models import CatalogueChange
from mcp_app.models.catalogue import Row

# The actions that enable or disable an entry, and whether the entry is enabled afterwards.
SWITCHES: Final = {"enabled": True, "disabled": False}


def last_switch(*, kind: str, actor: Any) -> int:
    """Return the revision at which this person last switched entries of a kind, or 0."""
    mine = CatalogueChange.objects.filter(kind=kind, actor=actor, action__in=SWITCHES)
    return mine.values_list("revision", flat=True).first() or 0


def undo_switch(*, kind: str, revision: int, actor: Any) -> list[Row]:
    """Reverse the switches that this person made at a revision, and return the entries.

    Raises ChangedMeanwhile, and changes nothing, if an entry changed since.
    """
    services.refuse_unless_publisher(actor)
    with transaction.atomic():
        revisions.lock()
        mine = CatalogueChange.objects.filter(kind=kind, actor=actor, action__in=SWITCHES)
        changes = list(mine.filter(revision=revision))
        rows = [_as_left(change) for change in changes]
        if not rows:
            raise ChangedMeanwhile("There is nothing to undo.")
        enabled = not SWITCHES[changes[0].action]
        why = f"Undo of revision {revision}"
        services.set_enabled(entries=rows, enabled=enabled, actor=actor, why=why)
        for row in rows:
            row.refresh_from_db()
    return rows


def _as_left(change: CatalogueChange) -> Row:
    row: Row | None = entry_now(change)
    if row is None or revisions.last_revision(row) != change.revision:
        raise ChangedMeanwhile(f"{change.key} was changed since.")
    return row
