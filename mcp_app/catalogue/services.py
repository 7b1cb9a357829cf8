"""The only writers of catalogue entries by people: each checks, writes, keeps history, audits and announces.

They take keyword arguments and raise ValidationError with field names. ``actor`` is who asks, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.catalogue import revisions, row_checks
from mcp_app.catalogue.revisions import Row
from mcp_app.models import Prompt, Resource, Source, Tool

R = TypeVar("R", bound=Tool | Prompt | Resource)
E = TypeVar("E", bound=Row)

_DRESS: Final = frozenset({"title", "description", "enabled", "permission", "position", "icons", "meta"})
_LIMITS: Final = frozenset(
    {
        "timeout_seconds",
        "calls_per_minute",
        "background",
        "retries",
        "queue",
        "priority",
        "max_running",
        "needs_approval",
        "approval_minutes",
        "four_eyes",
    }
)
_OWN: Final[dict[type[Any], frozenset[str]]] = {
    Tool: _DRESS | _LIMITS | {"name", "preset_of", "fixed_arguments"},
    Prompt: _DRESS | {"name", "arguments", "template"},
    Resource: _DRESS | {"uri", "name", "mime_type", "annotations", "text", "file"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """An entry to make (``entry`` None) or to change, and the values that the services here take for it."""

    kind: type[Any]
    entry: Row | None
    values: Mapping[str, Any]


class _Written(NamedTuple):
    row: Any
    action: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def editable(kind: type[Any], source: str) -> frozenset[str]:
    """The fields an administrator may set of an entry of this kind from this source."""
    if source == Source.ADMIN:
        return _OWN.get(kind, frozenset())
    return _DRESS | _LIMITS if kind is Tool else _DRESS


def save_prompt(*, actor: Any, entry: Prompt | None = None, **values: Any) -> Prompt:
    """Make (``entry`` None) or change an admin-made prompt: name, template, arguments, title, …"""
    return _save(Prompt, entry, values, actor)


def save_tool_preset(*, actor: Any, entry: Tool | None = None, **values: Any) -> Tool:
    """Make or change a preset: name, preset_of, fixed_arguments, title, limits, …"""
    return _save(Tool, entry, values, actor)


def save_resource(*, actor: Any, entry: Resource | None = None, **values: Any) -> Resource:
    """Make or change an admin-made resource: uri, name, text or file, mime_type, …

    ``file`` is an uploaded file; False takes the present one away.
    """
    if values.get("file") is False or values.get("file", "") is None:
        values["file"] = ""
    return _save(Resource, entry, values, actor)


def update_entry(*, entry: E, actor: Any, **values: Any) -> E:
    """Change what an administrator may of any entry: its words, switch, permission, place and limits."""
    with transaction.atomic():
        row = _locked(entry)
        return _write(row, _without_definition(row, values), actor, "changed")


def set_enabled(*, entries: Iterable[Row], enabled: bool, actor: Any) -> int:
    """Switch entries on or off as one revision; returns how many changed."""
    action = "enabled" if enabled else "disabled"
    with transaction.atomic():
        revisions.lock()
        rows = [row for entry in entries if (row := _locked(entry)).enabled != enabled]
        revision = revisions.bump({revisions.kind_of(row) for row in rows}) if rows else 0
        for row in rows:
            before = revisions.state_of(row)
            row.enabled = enabled
            row.updated_by = revisions.known(actor)
            row.save(update_fields=["enabled", "updated_by", "updated_at"])
            _remember(row, revision, action, before, revisions.state_of(row), actor)
    return len(rows)


def delete_entry(*, entry: Row, actor: Any) -> None:
    """Delete one entry; see ``delete_entries``."""
    delete_entries(entries=[entry], actor=actor)


def delete_entries(*, entries: Iterable[Row], actor: Any) -> int:
    """Delete admin-made entries, and code entries whose code is gone, as one revision; returns how many.

    Raises ValidationError, and deletes nothing, when one of them is defined in code or has presets.
    """
    with transaction.atomic():
        revisions.lock()
        rows = [_locked(entry) for entry in entries]
        for row in rows:
            _refuse_delete(row)
        revision = revisions.bump({revisions.kind_of(row) for row in rows}) if rows else 0
        for row in rows:
            _remember(row, revision, "deleted", _delete(row), None, actor)
    return len(rows)


def check_change(change: EntryChange) -> None:
    """Raise the ValidationError that the write of this change would raise now; nothing is written."""
    row, values = _opened(change)
    _fill(row, values)


def change_entries(*, changes: Iterable[EntryChange], removed: Iterable[Row] = (), actor: Any) -> int:
    """Make, change and delete entries as one revision; returns it, 0 when nothing was different.

    Raises ValidationError, and leaves everything as it was, when one of them is refused.
    """
    with transaction.atomic(), ExitStack() as uploads:
        revisions.lock()
        written = [_written(change, actor, uploads) for change in changes]
        for row in (rows := [_locked(entry) for entry in removed]):
            _refuse_delete(row)
        written += [_Written(row, "deleted", _delete(row), None) for row in rows]
        written = [each for each in written if each.before != each.after]
        revision = revisions.bump({revisions.kind_of(each.row) for each in written}) if written else 0
        for row, action, before, after in written:
            _remember(row, revision, action, before, after, actor)
        uploads.pop_all()
    return revision


def accept_definition(*, entry: Row, actor: Any) -> None:
    """Mark the definition that code has now as reviewed; nothing changes for clients."""
    with transaction.atomic():
        row = _locked(entry)
        if row.reviewed_hash != row.definition_hash:
            row.reviewed_hash = row.definition_hash
            row.save(update_fields=["reviewed_hash"])
            revisions.audit(actor=actor, action="catalogue.accepted", row=row)
    entry.reviewed_hash = row.reviewed_hash


def _save(kind: type[R], entry: R | None, values: Mapping[str, Any], actor: Any) -> R:
    _refuse_unknown(kind, values)
    with transaction.atomic():
        revisions.lock()
        if entry is None:
            return _write(kind(source=Source.ADMIN), values, actor, "created")
        row = _locked(entry)
        if row.source != Source.ADMIN:
            raise ValidationError("This entry is defined in code; use update_entry.")
        return _write(row, values, actor, "changed")


def _refuse_unknown(kind: type[Any], values: Mapping[str, Any]) -> None:
    if unknown := sorted(values.keys() - editable(kind, Source.ADMIN)):
        raise ValidationError({unknown[0]: ["There is no such field."]})


def _without_definition(row: Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values an administrator may set of an entry that is not theirs; others must be as they are."""
    allowed = editable(type(row), row.source)
    for name in values.keys() - allowed:
        if values[name] != getattr(row, name, None):
            raise ValidationError({name: ["This is defined in code and cannot be changed here."]})
    return {name: values[name] for name in values.keys() & allowed}


def _opened(change: EntryChange) -> tuple[Any, Mapping[str, Any]]:
    """The row to fill, as stored or new, and the values it may take."""
    row = change.kind(source=Source.ADMIN) if change.entry is None else _stored(change.entry)
    if row.source != Source.ADMIN:
        return row, _without_definition(row, change.values)
    _refuse_unknown(change.kind, change.values)
    return row, change.values


def _stored(entry: E) -> E:
    manager: Any = type(entry)._default_manager
    found: E = manager.get(pk=entry.pk)
    return found


def _locked(entry: E) -> E:
    """The row as stored, which may differ from the caller's copy; other writers wait."""
    revisions.lock()
    manager: Any = type(entry)._default_manager
    found: E = manager.select_for_update(of=("self",)).get(pk=entry.pk)
    return found


def _write(row: E, values: Mapping[str, Any], actor: Any, action: str) -> E:
    before, after = _store(row, values, actor)
    if before != after:
        revision = revisions.bump({revisions.kind_of(row)})
        _remember(row, revision, action, before, after, actor)
    return row


def _written(change: EntryChange, actor: Any, uploads: ExitStack) -> _Written:
    row, values = _opened(change)
    before, after = _store(row, values, actor)
    if values.get("file"):
        # A rolled back transaction takes the row back, but not the file that was stored with it.
        uploads.callback(row.file.storage.delete, row.file.name)
    return _Written(row, "created" if change.entry is None else "changed", before, after)


def _store(row: Row, values: Mapping[str, Any], actor: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Fill, check and save a row; returns its state before (None when it is new) and after."""
    before = None if row._state.adding else revisions.state_of(row)
    old_file = row.file.name if isinstance(row, Resource) else ""
    _fill(row, values)
    row.updated_by = revisions.known(actor)
    row.reviewed_hash = row.definition_hash
    row.save()
    if isinstance(row, Resource) and old_file != row.file.name:
        _forget_file(row, old_file)
    return before, revisions.state_of(row)


def _fill(row: Row, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    row_checks.check(row, own=row.source == Source.ADMIN)


def _delete(row: Row) -> dict[str, Any]:
    """Delete a row and its upload; returns its last state."""
    before = revisions.state_of(row)
    if isinstance(row, Resource):
        _forget_file(row, row.file.name)
    row.delete()
    return before


def _remember(
    row: Row,
    revision: int,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
    actor: Any,
) -> None:
    revisions.record(revision=revision, row=row, action=action, before=before, after=after, actor=actor)
    changed = sorted(name for name in after if before.get(name) != after[name]) if before and after else []
    detail = {"revision": revision, "changed": changed}
    revisions.audit(actor=actor, action=f"catalogue.{action}", row=row, detail=detail)


def _refuse_delete(row: Any) -> None:
    if row.source != Source.ADMIN and not row.missing:
        raise ValidationError(f"{row} is defined in code and stays; disable it instead.")
    if isinstance(row, Tool) and Tool.objects.filter(preset_of=row).exists():
        raise ValidationError(f"{row} has presets; delete them first.")


def _forget_file(row: Resource, name: str | None) -> None:
    """Remove an uploaded file once nothing can refer to it any more."""
    if name:
        storage = row.file.storage
        transaction.on_commit(lambda: storage.delete(name))
