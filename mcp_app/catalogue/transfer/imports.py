"""Import of a catalogue file, which writes all changes as one revision or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.services import change_entries
from mcp_app.catalogue.snapshots import snapshot_loader
from mcp_app.catalogue.transfer import notation as notations
from mcp_app.catalogue.transfer.permissions import needed
from mcp_app.catalogue.transfer.plan import Difference, Plan, plan
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import or a dry run. ``revision`` is 0 if nothing was written.

    ``planned_at`` is the catalogue revision that the file was compared with.
    """

    revision: int
    planned_at: int
    differences: tuple[Difference, ...]
    unchanged: int

    def counted(self) -> dict[str, int]:
        """Return the numbers of added, changed, removed and unchanged entries."""
        actions = Counter(difference.action for difference in self.differences)
        counted = {name: actions[name] for name in ("added", "changed", "removed")}
        return {**counted, "unchanged": self.unchanged}


class CatalogueMoved(Exception):
    """Raised if the catalogue is no longer at ``at_revision``, so the differences shown are outdated."""


class ImportForbidden(Exception):
    """Raised if the actor lacks ``permissions`` for the changes."""

    def __init__(self, permissions: list[str]) -> None:
        super().__init__(", ".join(permissions))
        self.permissions = permissions


def import_catalogue(
    data: bytes,
    notation: str = "json",
    *,
    actor: Any,
    prune: bool = False,
    dry_run: bool = False,
    may: Callable[[str], bool] | None = None,
    at_revision: int | None = None,
) -> Imported:
    """Import a catalogue file. Clients are notified once, after the commit.

    ``actor`` is the importing user or None. Fields that an entry in the file lacks become empty, or get the
    value from code. Entries that the file lacks stay unless ``prune`` is set. ``may`` returns True for a
    permission that the actor has; None grants all permissions. ``at_revision`` is the required revision of
    the catalogue.

    Raises TransferRefused with every problem of the file, ImportForbidden or CatalogueMoved. In these cases
    nothing changes.
    """
    document = notations.read(data, notation)
    if dry_run:
        at = snapshot_loader.revision().number
        return _imported(0, at, plan(document, prune=prune))
    with transaction.atomic():
        # Rows must not change between the comparison and the import.
        revisions.lock()
        at = snapshot_loader.revision().number
        if at_revision not in (None, at):
            raise CatalogueMoved
        planned = plan(document, prune=prune)
        missing = [name for name in needed(planned.differences) if may is not None and not may(name)]
        if missing:
            raise ImportForbidden(missing)
        revision = _apply(planned, at, actor)
    return _imported(revision, at, planned)


def _apply(planned: Plan, at: int, actor: Any) -> int:
    if not planned.differences:
        return 0
    try:
        revision = change_entries(changes=planned.changes, removed=planned.removed, actor=actor)
        for write in planned.writes:
            write(actor)
            revision = snapshot_loader.revision().number
    except ValidationError as error:
        raise TransferRefused([Problem("", "", text) for text in error.messages]) from error
    detail = {"revision": revision, **_imported(revision, at, planned).counted()}
    revisions.audit(actor=actor, action="catalogue.imported", detail=detail)
    return revision


def _imported(revision: int, at: int, planned: Plan) -> Imported:
    return Imported(revision, at, tuple(planned.differences), planned.unchanged)
