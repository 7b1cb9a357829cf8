"""Roll back of an entry to its state after an earlier change.

A roll back is a new change in the history, which never loses changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import pending_drafts, revisions, services, states
from mcp_app.catalogue.changes.services import ChangeAuthor, ChangedMeanwhile, EntryChange
from mcp_app.catalogue.sources.lookup import named, source_of
from mcp_app.models import CatalogueChange


@dataclass(frozen=True, slots=True)
class RollBack:
    """The planned effect of a roll back: the change, the states before and after it, and notes.

    ``before`` and ``after`` are editable states. ``revision`` is the entry's newest revision, which
    ``roll_back`` takes as ``seen``. ``notes`` list the parts that cannot be restored, with reasons.
    """

    change: EntryChange
    revision: int
    before: dict[str, Any] | None
    after: dict[str, Any]
    notes: tuple[str, ...]


def roll_back(*, to: CatalogueChange, actor: Any, why: str = "", seen: int | None = None) -> Any:
    """Restore and return the entry in its state after the change ``to``, or before ``to`` for a deletion.

    Raises ValidationError if the state would be invalid now, and ChangedMeanwhile if the entry's newest
    revision is not ``seen``.
    """
    services.refuse_unless_publisher(actor)
    why = revisions.checked_why(why)
    with transaction.atomic():
        revisions.lock()
        plan = plan_roll_back(to)
        if seen is not None and plan.revision != seen:
            raise ChangedMeanwhile("Changed after you opened this page. Review the changes again.")
        author = ChangeAuthor(actor=actor, action="rolled_back", why=why, detail={"to": to.revision})
        return services.write_change(change=plan.change, author=author)


def plan_roll_back(to: CatalogueChange) -> RollBack:
    """Return the effect of rolling back to a change. Raises ValidationError if it is impossible."""
    kind = pending_drafts.KIND_NAMED[to.kind]
    state = state_after(to)
    row = entry_now(to)
    notes: list[str] = []
    source = named(kind, state.get("source", "")) if row is None else source_of(row)
    wanted = states.editable_part(kind, source, state)
    if row is None:
        if source.follows:
            raise ValidationError(source.returns)
        before = None
    else:
        if "source" in state and not named(kind, state["source"]).owns(row):
            raise ValidationError(f"The source was {state['source']} then and is {row.source} now.")
        before = states.editable_part(kind, source, revisions.state_of(row))
        if source.follows and state.get("definition") != row.definition:
            notes.append(f"The definition in {source.origin} does not change.")
    values = _without_lost_upload(to, row, wanted, notes)
    after = (before or states.empty_state(kind, source)) | values
    differing = {name: value for name, value in values.items() if before is None or before[name] != value}
    given = states.service_values(differing) | _file(differing)
    change = EntryChange(kind=kind, entry=row, values=given, source=source)
    return RollBack(change, _newest_revision(to, row), before, after, tuple(notes))


def state_after(change: CatalogueChange) -> dict[str, Any]:
    """Return the state that a roll back restores: after a change, or before a deletion."""
    state: dict[str, Any] = change.after if change.after is not None else change.before or {}
    return state


def entry_now(change: CatalogueChange) -> Any:
    """Return the entry of a change, found by row id or else by name. Return None if it does not exist."""
    kind: Any = pending_drafts.KIND_NAMED[change.kind]
    rows = kind._default_manager
    found = rows.filter(pk=change.entry_id).first() if change.entry_id is not None else None
    return found or rows.filter(**{kind.KEY: change.key}).first()


def _newest_revision(to: CatalogueChange, row: Any) -> int:
    if row is not None:
        return revisions.last_revision(row)
    return revisions.history_of(to.kind, to.key).values_list("revision", flat=True).first() or 0


def _without_lost_upload(
    to: CatalogueChange, row: Any, wanted: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Return the wanted values, without text and file if the wanted upload was replaced and deleted."""
    name = wanted.get("file")
    if not name:
        return wanted
    if row is not None and row.file.name == name and not _replaced_since(to, name):
        return wanted
    shown = PurePath(name).name
    if row is None:
        raise ValidationError(
            {"file": [f"The uploaded file {shown} was deleted. Create the resource again."]}
        )
    notes.append(f"The uploaded file {shown} was deleted. Text and file keep their current values.")
    return {field: value for field, value in wanted.items() if field not in services.CONTENT}


def _replaced_since(to: CatalogueChange, name: str) -> bool:
    """Return True if a later change stored another file. A later upload may have the same name."""
    later = revisions.history_of(to.kind, to.key, to.entry_id).filter(pk__gt=to.pk)
    return any((change.after or {}).get("file") != name for change in later)


def _file(differing: Mapping[str, Any]) -> dict[str, Any]:
    # A wanted upload is the current upload and does not differ, so a difference means that none is wanted.
    return {"file": ""} if "file" in differing else {}
