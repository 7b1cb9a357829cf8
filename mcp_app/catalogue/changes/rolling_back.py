"""Rolling back: an entry becomes what it was after an earlier change, by a new change; history only grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue.changes import pending_drafts, revisions, services, states
from mcp_app.catalogue.changes.services import ChangeAuthor, ChangedMeanwhile, EntryChange
from mcp_app.catalogue.sources.registry import made_here, named, source_of
from mcp_app.models import CatalogueChange


@dataclass(frozen=True, slots=True)
class RollBack:
    """What a roll back would do: the entry (None: it is gone and comes back), before, after, and what stays.

    ``before`` and ``after`` are what an administrator may set; ``revision`` is the entry's newest, which
    ``roll_back`` takes as ``seen``; ``notes`` say what of the former state cannot come back, and why.
    """

    change: EntryChange
    revision: int
    before: dict[str, Any] | None
    after: dict[str, Any]
    notes: tuple[str, ...]


def roll_back(*, to: CatalogueChange, actor: Any, why: str = "", seen: int | None = None) -> Any:
    """Make the entry what it was after the change ``to`` (before it, if that deleted it); returns the entry.

    Raises ValidationError when it would be invalid now, ChangedMeanwhile when the entry's newest revision is
    not the one ``seen``.
    """
    services.refuse_unless_publisher(actor)
    why = revisions.checked_why(why)
    with transaction.atomic():
        revisions.lock()
        plan = plan_roll_back(to)
        if seen is not None and plan.revision != seen:
            raise ChangedMeanwhile("It was changed after you opened this page: review it again.")
        author = ChangeAuthor(actor=actor, action="rolled_back", why=why, detail={"to": to.revision})
        return services.write_change(change=plan.change, author=author)


def plan_roll_back(to: CatalogueChange) -> RollBack:
    """What rolling back to that state would do now; raises ValidationError when there is no way back."""
    kind = pending_drafts.KIND_NAMED[to.kind]
    state = state_after(to)
    row = entry_now(to)
    notes: list[str] = []
    if row is None:
        _refuse_restore(kind, state)
        before = None
        wanted = states.editable_part(kind, made_here(kind), state)
    else:
        source = source_of(row)
        if "source" in state and not named(kind, state["source"]).owns(row):
            raise ValidationError(f"Then it came from {state['source']}, now from {row.source}.")
        before = states.editable_part(kind, source, revisions.state_of(row))
        wanted = states.editable_part(kind, source, state)
        if source.follows and state.get("definition") != row.definition:
            notes.append("What code defines stays as the code has it now.")
    values = _without_lost_upload(to, row, wanted, notes)
    after = (before or states.empty_state(kind)) | values
    differing = {name: value for name, value in values.items() if before is None or before[name] != value}
    change = EntryChange(kind=kind, entry=row, values=states.service_values(differing) | _file(differing))
    return RollBack(change, _newest_revision(to, row), before, after, tuple(notes))


def state_after(change: CatalogueChange) -> dict[str, Any]:
    """The state that rolling back to a change leads to: what it made, or the last one before a deletion."""
    state: dict[str, Any] = change.after if change.after is not None else change.before or {}
    return state


def entry_now(change: CatalogueChange) -> Any:
    """The entry a change is about: its row, else the one that clients know by that name now; None if gone."""
    kind: Any = pending_drafts.KIND_NAMED[change.kind]
    rows = kind._default_manager
    found = rows.filter(pk=change.entry_id).first() if change.entry_id is not None else None
    return found or rows.filter(**{kind.KEY: change.key}).first()


def _newest_revision(to: CatalogueChange, row: Any) -> int:
    if row is not None:
        return revisions.last_revision(row)
    return revisions.history_of(to.kind, to.key).values_list("revision", flat=True).first() or 0


def _refuse_restore(kind: type[Any], state: Mapping[str, Any]) -> None:
    if named(kind, state.get("source", "")).follows:
        raise ValidationError("Its code is gone: it comes back when the app that defines it is installed.")


def _without_lost_upload(
    to: CatalogueChange, row: Any, wanted: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """The wanted values without content that cannot come back: a replaced upload is not kept."""
    name = wanted.get("file")
    if not name:
        return wanted
    if row is not None and row.file.name == name and not _replaced_since(to, name):
        return wanted
    shown = PurePath(name).name
    if row is None:
        raise ValidationError(
            {"file": [f"Its uploaded file {shown} is no longer kept: make the resource again and upload it."]}
        )
    notes.append(f"The uploaded file {shown} is no longer kept: text and file stay as they are now.")
    return {field: value for field, value in wanted.items() if field not in services.CONTENT}


def _replaced_since(to: CatalogueChange, name: str) -> bool:
    """Whether another file came in between; a later upload may have got the same name."""
    later = revisions.history_of(to.kind, to.key, to.entry_id).filter(pk__gt=to.pk)
    return any((change.after or {}).get("file") != name for change in later)


def _file(differing: Mapping[str, Any]) -> dict[str, Any]:
    # A wanted upload is the present one, so only its absence can differ.
    return {"file": ""} if "file" in differing else {}
