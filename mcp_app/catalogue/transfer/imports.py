"""Brings the catalogue to what a file says: all of it or nothing, as one revision, through the services."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue import revisions
from mcp_app.catalogue.services import change_entries
from mcp_app.catalogue.transfer import notation as notations
from mcp_app.catalogue.transfer.plan import Difference, Plan, plan
from mcp_app.catalogue.transfer.problems import Problem, TransferRefused


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did or, as a dry run, would do; ``revision`` is 0 when nothing was written."""

    revision: int
    differences: tuple[Difference, ...]
    unchanged: int

    def counted(self) -> dict[str, int]:
        """How many entries were added, changed, removed and left as they were."""
        actions = Counter(difference.action for difference in self.differences)
        counted = {name: actions[name] for name in ("added", "changed", "removed")}
        return {**counted, "unchanged": self.unchanged}


def import_catalogue(
    data: bytes, notation: str = "json", *, actor: Any, prune: bool = False, dry_run: bool = False
) -> Imported:
    """Read a catalogue file and bring the catalogue to it; clients hear of it once, after the commit.

    ``actor`` is who asks, or None. An entry in the file becomes what the file says: fields it leaves out
    are empty, or as in code. Entries missing in the file stay, unless ``prune``. Raises TransferRefused with
    every problem of the file, and changes nothing.
    """
    document = notations.read(data, notation)
    if dry_run:
        planned = plan(document, prune=prune)
        return _imported(0, planned)
    with transaction.atomic():
        # Nobody may change what the plan was made from.
        revisions.lock()
        planned = plan(document, prune=prune)
        revision = _apply(planned, actor)
    return _imported(revision, planned)


def _apply(planned: Plan, actor: Any) -> int:
    if not planned.differences:
        return 0
    try:
        revision = change_entries(changes=planned.changes, removed=planned.removed, actor=actor)
    except ValidationError as error:
        raise TransferRefused([Problem("", "", text) for text in error.messages]) from error
    detail = {"revision": revision, **_imported(revision, planned).counted()}
    revisions.audit(actor=actor, action="catalogue.imported", detail=detail)
    return revision


def _imported(revision: int, planned: Plan) -> Imported:
    return Imported(revision, tuple(planned.differences), planned.unchanged)
