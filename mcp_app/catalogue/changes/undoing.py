"""Undo of changes made in a list: a new change restores the entries that one revision changed."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from django.db import transaction

from mcp_app.catalogue.changes import revisions, services
from mcp_app.catalogue.changes.rolling_back import entry_now
from mcp_app.catalogue.changes.services import PERMISSION_SET, ChangedMeanwhile
from mcp_app.models import CatalogueChange
from mcp_app.models.catalogue import Row

# The actions that enable or disable an entry, and whether the entry is enabled afterwards.
SWITCHES: Final = {"enabled": True, "disabled": False}
_UNDOABLE: Final = (*SWITCHES, PERMISSION_SET)


class Undone(NamedTuple):
    """The entries of an undo, and the action that was reversed."""

    rows: list[Row]
    action: str


def last_revision(*, kind: str, actor: Any) -> int:
    """Return the revision of this person's last change that can be undone, or 0."""
    return _changes(kind, actor).values_list("revision", flat=True).first() or 0


def undo(*, kind: str, revision: int, actor: Any) -> Undone:
    """Reverse the switches or permissions that this person set at a revision.

    Raises ChangedMeanwhile, and changes nothing, if an entry changed since.
    """
    services.refuse_unless_publisher(actor)
    with transaction.atomic():
        revisions.lock()
        changes = list(_changes(kind, actor).filter(revision=revision))
        rows = [_state_after(change) for change in changes]
        if not rows:
            raise ChangedMeanwhile("There is nothing to undo.")
        why = f"Undo of revision {revision}"
        action = changes[0].action
        if action in SWITCHES:
            services.set_enabled(entries=rows, enabled=not SWITCHES[action], actor=actor, why=why)
        else:
            before = [str((change.before or {})["permission"]) for change in changes]
            services.set_permissions(wanted=zip(rows, before, strict=True), actor=actor, why=why)
        for row in rows:
            row.refresh_from_db()
    return Undone(rows, action)


def _changes(kind: str, actor: Any) -> Any:
    return CatalogueChange.objects.filter(kind=kind, actor=actor, action__in=_UNDOABLE)


def _state_after(change: CatalogueChange) -> Row:
    row: Row | None = entry_now(change)
    if row is None or revisions.last_revision(row) != change.revision:
        raise ChangedMeanwhile(f"{change.key} was changed since.")
    return row
