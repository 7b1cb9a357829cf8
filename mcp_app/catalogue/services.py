"""The only writers of catalogue entries by people: each checks, writes, keeps history, audits and announces.

They take keyword arguments and raise ValidationError with field names. ``actor`` is who asks, or None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

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
    }
)
_OWN: Final[dict[type[Any], frozenset[str]]] = {
    Tool: _DRESS | _LIMITS | {"name", "preset_of", "fixed_arguments"},
    Prompt: _DRESS | {"name", "arguments", "template"},
    Resource: _DRESS | {"uri", "name", "mime_type", "annotations", "text", "file"},
}


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
    allowed = _DRESS | _LIMITS if isinstance(entry, Tool) else _DRESS
    with transaction.atomic():
        row = _locked(entry)
        for name in values.keys() - allowed:
            if values[name] != getattr(row, name, None):
                raise ValidationError({name: ["This is defined in code and cannot be changed here."]})
        return _write(row, {name: values[name] for name in values.keys() & allowed}, actor, "changed")


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
            _remember(row, revision, "deleted", revisions.state_of(row), None, actor)
            if isinstance(row, Resource):
                _forget_file(row, row.file.name)
            row.delete()
    return len(rows)


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
    if unknown := sorted(values.keys() - _OWN[kind]):
        raise ValidationError({unknown[0]: ["There is no such field."]})
    with transaction.atomic():
        revisions.lock()
        if entry is None:
            return _write(kind(source=Source.ADMIN), values, actor, "created")
        row = _locked(entry)
        if row.source != Source.ADMIN:
            raise ValidationError("This entry is defined in code; use update_entry.")
        return _write(row, values, actor, "changed")


def _locked(entry: E) -> E:
    """The row as stored, which may differ from the caller's copy; other writers wait."""
    revisions.lock()
    manager: Any = type(entry)._default_manager
    found: E = manager.select_for_update(of=("self",)).get(pk=entry.pk)
    return found


def _write(row: E, values: Mapping[str, Any], actor: Any, action: str) -> E:
    before = None if row._state.adding else revisions.state_of(row)
    old_file = row.file.name if isinstance(row, Resource) else ""
    for name, value in values.items():
        setattr(row, name, value)
    row_checks.check(row, own=row.source == Source.ADMIN)
    row.updated_by = revisions.known(actor)
    row.reviewed_hash = row.definition_hash
    row.save()
    after = revisions.state_of(row)
    if before != after:
        revision = revisions.bump({revisions.kind_of(row)})
        _remember(row, revision, action, before, after, actor)
    if isinstance(row, Resource) and old_file != row.file.name:
        _forget_file(row, old_file)
    return row


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
