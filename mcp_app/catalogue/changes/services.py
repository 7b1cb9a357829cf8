"""The only functions that write changes made by people to the catalogue.

Each function checks, writes, records, audits and announces its changes.

The functions take keyword arguments and raise ValidationError by field. ``actor`` is the acting user, or
None for the installation itself. Without the permission ``mcp_app.publish_entries`` changes that clients see
raise PermissionDenied. ``why`` is stored with the change. ``seen`` is the revision of the entry
(``revisions.last_revision``) that the caller read. If the entry changed since, ChangedMeanwhile is raised and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction

from mcp_app.auth.membership import grant_membership
from mcp_app.catalogue.changes import pending_drafts, revisions, row_checks
from mcp_app.catalogue.changes.mirroring import Mirrored, mirror_checked
from mcp_app.catalogue.definitions.definition import Definition
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.content.source import listed_mime_type
from mcp_app.catalogue.sources.lookup import made_here, makers, source_of
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.limits.services import follow_tool
from mcp_app.models import Prompt, Resource, Tool
from mcp_app.models.catalogue import Row

R = TypeVar("R", bound=Tool | Prompt | Resource)
E = TypeVar("E", bound=Row)

PUBLISH: Final = "mcp_app.publish_entries"
# The event of a permission that was set on several entries at once.
PERMISSION_SET: Final = "permission_set"
# The columns with a resource's content, which lists do not contain.
CONTENT: Final = frozenset({"text", "file"})


class ChangedMeanwhile(ValidationError):
    """The object changed after the caller read it. The caller has to read the object again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAuthor:
    """The author of a change, the event name for history and audit trail, and the reason."""

    actor: Any
    action: str
    why: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChange:
    """A change of ``entry``, or a new entry if ``entry`` is None, with the values to write.

    ``source`` applies to new entries. None means the default source of entries made in the admin.
    """

    kind: type[Any]
    entry: Row | None
    values: Mapping[str, Any]
    source: Source | None = None


class _Written(NamedTuple):
    row: Any
    author: ChangeAuthor
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def may_publish(actor: Any) -> bool:
    """Return True if the actor may publish changes. None is the installation itself, which may."""
    return actor is None or actor.has_perm(PUBLISH)


def refuse_unless_publisher(actor: Any) -> None:
    """Raise PermissionDenied for users who may only save drafts."""
    if not may_publish(actor):
        raise PermissionDenied(f"{actor} needs {PUBLISH}: without it changes can only be saved as drafts.")


def save_entry(
    *,
    kind: type[R],
    actor: Any,
    entry: R | None = None,
    source: Source | None = None,
    why: str = "",
    seen: int | None = None,
    **values: Any,
) -> R:
    """Create an entry in the admin (``entry`` None) or change an entry that was made there.

    ``source`` applies to new entries, as in ``EntryChange``. ``file`` is an uploaded file; False or None
    removes the current file.
    """
    if values.get("file") is False or values.get("file", "") is None:
        values["file"] = ""
    author = _saving(actor, entry, why)
    with transaction.atomic():
        revisions.lock()
        row = _new(kind, source) if entry is None else locked(entry)
        if source_of(row).follows:
            raise ValidationError(f"This entry is defined in {source_of(row).origin}; use update_entry.")
        _refuse_unknown(row, values)
        if entry is not None:
            refuse_stale(row, seen)
        return _write(row, values, author)


def save_prompt(**values: Any) -> Prompt:
    """Create or change an admin-made prompt, like ``save_entry``."""
    row: Prompt = save_entry(kind=Prompt, **values)
    return row


def save_tool_preset(**values: Any) -> Tool:
    """Create or change a preset, or another admin-made tool, like ``save_entry``."""
    row: Tool = save_entry(kind=Tool, **values)
    return row


def save_resource(**values: Any) -> Resource:
    """Create or change an admin-made resource, like ``save_entry``."""
    row: Resource = save_entry(kind=Resource, **values)
    return row


def update_entry(*, entry: E, actor: Any, why: str = "", seen: int | None = None, **values: Any) -> E:
    """Change the fields that an administrator may set on any entry, such as texts, switch and limits."""
    author = _saving(actor, entry, why)
    with transaction.atomic():
        row = locked(entry)
        refuse_stale(row, seen)
        return _write(row, _without_definition(row, values), author)


def set_enabled(*, entries: Iterable[Row], enabled: bool, actor: Any, why: str = "") -> int:
    """Enable or disable entries in one revision. Return the number of entries that changed."""
    author = _author(actor, "enabled" if enabled else "disabled", why)
    return _set_column([(entry, enabled) for entry in entries], "enabled", author)


def set_permissions(*, wanted: Iterable[tuple[Row, str]], actor: Any, why: str = "") -> int:
    """Set the permissions of entries in one revision. "" removes an administrator's permission.

    Return the number of entries that changed. Raises ValidationError, and writes nothing, for text that is
    not a permission.
    """
    author, pairs = _author(actor, PERMISSION_SET, why), list(wanted)
    for permission in {permission for _, permission in pairs}:
        row_checks.check_permission(permission)
    return _set_column(pairs, "permission", author)


def delete_entry(*, entry: Row, actor: Any, why: str = "") -> None:
    """Delete one entry, like ``delete_entries``."""
    delete_entries(entries=[entry], actor=actor, why=why)


def delete_entries(*, entries: Iterable[Row], actor: Any, why: str = "") -> int:
    """Delete entries that were made in the admin or are marked missing, in one revision.

    Return the number of deleted entries. Raises ValidationError, and deletes nothing, if an entry is defined
    elsewhere or has presets.
    """
    author = _author(actor, "deleted", why)
    with transaction.atomic():
        revisions.lock()
        rows = [locked(entry) for entry in entries]
        for row in rows:
            _refuse_delete(row)
        revision = revisions.bump({revisions.kind_of(row) for row in rows}) if rows else 0
        for row in rows:
            _remember(row, revision, author, _delete(row, actor), None)
    return len(rows)


def check_change(change: EntryChange) -> Any:
    """Return the row with the change, unsaved. Raises the ValidationError that writing would raise."""
    row, values = _opened(change)
    _fill(row, values)
    return row


def change_entries(
    *, changes: Iterable[EntryChange], removed: Iterable[Row] = (), actor: Any, why: str = ""
) -> int:
    """Create, change and delete entries in one revision. Return the revision, or 0 without a difference.

    Raises ValidationError, and writes nothing, if a change is refused.
    """
    deletion = _author(actor, "deleted", why)
    with transaction.atomic(), ExitStack() as uploads:
        revisions.lock()
        written = [_written(change, _saving(actor, change.entry, why), uploads) for change in changes]
        for row in (rows := [locked(entry) for entry in removed]):
            _refuse_delete(row)
        written += [_Written(row, deletion, _delete(row, actor), None) for row in rows]
        written = [each for each in written if each.before != each.after]
        revision = _bump(written) if written else 0
        for row, author, before, after in written:
            _remember(row, revision, author, before, after)
        uploads.pop_all()
    return revision


def mirror_entries(
    *, source: Source, kind: type[Row], definitions: Mapping[str, Definition], actor: Any, why: str = ""
) -> Mirrored:
    """Update the rows of a source that fetches its definitions, in one revision.

    ``definitions`` are the fetched definitions by key. Values set by administrators stay. Rows without a
    definition are marked missing until their definition returns. Raises ValueError for sources whose rows
    are made in the admin or follow code.
    """
    if not source.follows or source.provided(kind) is not None:
        raise ValueError(f"Rows of the source {source.stored!r} are not fetched.")
    author = _author(actor, "mirrored", why)
    return mirror_checked(source, kind, definitions, revisions.stored_actor(actor), author.why)


def write_change(*, change: EntryChange, author: ChangeAuthor) -> Any:
    """Write one change with the given author and event name, and return the entry.

    Raises ValidationError if the change is refused or changes nothing.
    """
    refuse_unless_publisher(author.actor)
    with transaction.atomic(), ExitStack() as uploads:
        revisions.lock()
        written = _written(change, author, uploads)
        row, _, before, after = written
        if before == after:
            raise ValidationError("No changes: the entry already has these values.")
        _remember(row, _bump([written]), author, before, after)
        uploads.pop_all()
    return row


def locked(entry: E) -> E:
    """Lock the catalogue and return the stored row, which may differ from the caller's copy."""
    revisions.lock()
    manager: Any = type(entry)._default_manager
    found: E = manager.select_for_update(of=("self",)).get(pk=entry.pk)
    return found


def refuse_stale(row: Row, seen: int | None) -> None:
    """Raise ChangedMeanwhile if the entry changed since revision ``seen``."""
    if seen is not None and revisions.last_revision(row) != seen:
        newest = revisions.history_of(revisions.kind_of(row), revisions.key_of(row), row.pk).first()
        who = newest.actor if newest and newest.actor else "the system"
        raise ChangedMeanwhile(f"Changed by {who} after you opened it. Review the changes and save again.")


def refuse_unless_allowed(row: Row, before: Mapping[str, Any] | None, actor: Any) -> None:
    """Raise ValidationError if the actor may not store a row's own fields, which differ from ``before``."""
    source = source_of(row)
    permission, field, text = source.permission_to_store(row)
    if not permission or actor is None or actor.has_perm(permission):
        return
    after, own = revisions.state_of(row), source.own_fields.get(type(row), ())
    if before is None or any(before.get(name) != after.get(name) for name in own):
        raise ValidationError({field: [text]})


def accept_definition(*, entry: Row, actor: Any) -> None:
    """Accept the current definition. Clients see no change."""
    with transaction.atomic():
        row = locked(entry)
        if row.reviewed_hash != row.definition_hash:
            row.reviewed_hash = row.definition_hash
            row.save(update_fields=["reviewed_hash"])
            revisions.audit(actor=actor, action="catalogue.accepted", row=row)
    entry.reviewed_hash = row.reviewed_hash


def _set_column(wanted: Iterable[tuple[Row, Any]], column: str, author: ChangeAuthor) -> int:
    """Write one column of several entries in one revision. Return the number of entries that changed."""
    with transaction.atomic():
        revisions.lock()
        pairs = [(locked(entry), value) for entry, value in wanted]
        pairs = [(row, value) for row, value in pairs if getattr(row, column) != value]
        revision = revisions.bump({revisions.kind_of(row) for row, _ in pairs}) if pairs else 0
        for row, value in pairs:
            before = revisions.state_of(row)
            setattr(row, column, value)
            if column == "permission":
                grant_membership(value)
            row.updated_by = revisions.stored_actor(author.actor)
            row.save(update_fields=[column, "updated_by", "updated_at"])
            _remember(row, revision, author, before, revisions.state_of(row))
    return len(pairs)


def _author(actor: Any, action: str, why: str) -> ChangeAuthor:
    refuse_unless_publisher(actor)
    return ChangeAuthor(actor=actor, action=action, why=revisions.checked_why(why))


def _saving(actor: Any, entry: Row | None, why: str) -> ChangeAuthor:
    return _author(actor, "created" if entry is None else "changed", why)


def _new(kind: type[E], source: Source | None) -> E:
    """Return a new row of a source (None for the default source).

    Raises ValidationError if entries of the source cannot be made in the admin.
    """
    source = source or made_here(kind)
    if source not in makers(kind):
        raise ValidationError({"source": ["Entries of this source cannot be made here."]})
    row: E = source.new(kind)
    return row


def _refuse_unknown(row: Row, values: Mapping[str, Any]) -> None:
    if unknown := sorted(values.keys() - source_of(row).editable(type(row))):
        raise ValidationError({unknown[0]: ["There is no such field."]})


def _without_definition(row: Row, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that an administrator may set. Raises ValidationError if another value changed."""
    allowed = source_of(row).editable(type(row))
    for name in values.keys() - allowed:
        if values[name] != getattr(row, name, None):
            where = source_of(row).origin
            raise ValidationError({name: [f"This is defined in {where} and cannot be changed here."]})
    return {name: values[name] for name in values.keys() & allowed}


def _opened(change: EntryChange) -> tuple[Any, Mapping[str, Any]]:
    """Return the stored or new row that a change fills, and the values to write."""
    row = _new(change.kind, change.source) if change.entry is None else _stored(change.entry)
    if source_of(row).follows:
        return row, _without_definition(row, change.values)
    _refuse_unknown(row, change.values)
    return row, change.values


def _stored(entry: E) -> E:
    manager: Any = type(entry)._default_manager
    found: E = manager.get(pk=entry.pk)
    return found


def _write(row: E, values: Mapping[str, Any], author: ChangeAuthor) -> E:
    before, after = _store(row, values, author.actor)
    if before != after:
        _remember(row, _bump([_Written(row, author, before, after)]), author, before, after)
    return row


def _bump(written: Sequence[_Written]) -> int:
    """Increment the catalogue revision for some writes, and return it.

    The revisions of the affected lists and resource contents change as well (RES-08).
    """
    revision = revisions.bump({revisions.kind_of(each.row) for each in written if _listed(each)})
    for each in written:
        if _offers_again(each):
            each.row.content_revision = revision
            each.row.save(update_fields=["content_revision"])
    return revision


def _listed(written: _Written) -> bool:
    """Return True if a list may change. The content of a resource is not in lists."""
    row, _, before, after = written
    if not isinstance(row, Resource) or before is None or after is None:
        return True
    changed = {name for name in after if before[name] != after[name]}
    return bool(changed - CONTENT) or _mime_type(before) != _mime_type(after)


def _offers_again(written: _Written) -> bool:
    """Return True if the content of a resource may have changed."""
    row, _, before, after = written
    if not isinstance(row, Resource) or source_of(row).follows or after is None:
        return False
    if before is None or _mime_type(before) != _mime_type(after):
        return True
    return any(before[name] != after[name] for name in CONTENT)


def _mime_type(state: Mapping[str, Any]) -> str:
    return listed_mime_type(state["mime_type"], state["file"], state["uri"], state["text"])


def _written(change: EntryChange, author: ChangeAuthor, uploads: ExitStack) -> _Written:
    row, values = _opened(change)
    before, after = _store(row, values, author.actor)
    if values.get("file"):
        # A rollback does not remove the stored file.
        uploads.callback(row.file.storage.delete, row.file.name)
    return _Written(row, author, before, after)


def _store(row: Row, values: Mapping[str, Any], actor: Any) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Fill, check and save a row. Return its states before (None for a new row) and after the change."""
    before = None if row._state.adding else revisions.state_of(row)
    old_file = row.file.name if isinstance(row, Resource) else ""
    _fill(row, values)
    refuse_unless_allowed(row, before, actor)
    if "permission" in values:
        grant_membership(row.permission)
    # A new upload always differs, because its name is not the stored name. An unchanged row is saved if its
    # definition is not reviewed yet, because saving marks it as reviewed.
    if before is not None and before == revisions.state_of(row) and row.reviewed_hash == row.definition_hash:
        return before, before
    row.updated_by = revisions.stored_actor(actor)
    row.reviewed_hash = row.definition_hash
    row.save()
    if isinstance(row, Resource) and old_file != row.file.name:
        _forget_file(row, old_file)
    return before, revisions.state_of(row)


def _fill(row: Row, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    row_checks.check(row)


def _delete(row: Row, actor: Any) -> dict[str, Any]:
    """Delete a row, its draft and its upload. Return the last state of the row."""
    before = revisions.state_of(row)
    pending_drafts.drop_with_entry(row, actor)
    if isinstance(row, Resource):
        _forget_file(row, row.file.name)
    pk = row.pk
    row.delete()
    row.pk = pk  # ``delete`` clears it, but the history needs it.
    return before


def _remember(
    row: Row, revision: int, author: ChangeAuthor, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    actor, action, why = author.actor, author.action, author.why
    revisions.record(
        revision=revision, row=row, action=action, before=before, after=after, actor=actor, why=why
    )
    if before and after and before.get(key := row.KEY) != after.get(key):
        pending_drafts.follow_name(row)
        if isinstance(row, Tool):
            follow_tool(before[key], after[key])
    changed = sorted(name for name in after if before.get(name) != after[name]) if before and after else []
    detail = {"revision": revision, "changed": changed, **author.detail, **({"why": why} if why else {})}
    revisions.audit(actor=actor, action=f"catalogue.{action}", row=row, detail=detail)


def _refuse_delete(row: Any) -> None:
    source = source_of(row)
    if source.follows and not row.missing:
        raise ValidationError(f"{row} is defined in {source.origin} and stays; disable it instead.")
    if isinstance(row, Tool) and PRESET.made_from([row]).exists():
        raise ValidationError(f"{row} has presets; delete them first.")


def _forget_file(row: Resource, name: str | None) -> None:
    """Delete an uploaded file after the commit."""
    if name:
        storage = row.file.storage
        transaction.on_commit(lambda: storage.delete(name))
