"""Drafts: changes that are checked and stored, then published or discarded. Clients never see them.

Callers pass the draft that they read. If the draft was saved again since, ChangedMeanwhile is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.core.files import File
from django.db import transaction
from django.db.models.fields.files import FieldFile

from mcp_app.auth.membership import grant_membership
from mcp_app.catalogue.changes import pending_drafts, revisions, services, states
from mcp_app.catalogue.changes.services import ChangeAuthor, ChangedMeanwhile, EntryChange
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.sources.base import Source
from mcp_app.catalogue.sources.lookup import made_here, named, source_of
from mcp_app.models import Draft
from mcp_app.models.catalogue import Row

GONE: Final = "This draft was published or discarded meanwhile."
_FILE_GONE: Final = "The file uploaded with this draft can no longer be read: upload it again."


def save_draft(
    *,
    kind: type[Any],
    actor: Any,
    entry: Row | None = None,
    draft: Draft | None = None,
    source: Source | None = None,
    note: str = "",
    seen: int | None = None,
    **values: Any,
) -> Draft:
    """Store changed values as a draft of ``entry``, or of a new entry if ``entry`` is None.

    ``draft`` is the pending draft and ``seen`` the revision of the entry that the caller read. ``source``
    applies to the first draft of a new entry, as in ``EntryChange``. Raises ValidationError if publishing
    would raise it, or if no value differs from the entry.
    """
    note = revisions.checked_why(note)
    given = _given(values)
    with transaction.atomic(), ExitStack() as uploads:
        revisions.lock()
        row = None if entry is None else services.locked(entry)
        stored = pending_as_seen(kind, row, draft)
        if row is not None:
            services.refuse_stale(row, seen)
        new = stored or _new(kind, row, source)
        source = source_in(new, row)
        with _with_kept_upload(given, stored) as whole:
            changed = services.check_change(EntryChange(kind=kind, entry=row, values=whole, source=source))
            services.refuse_unless_allowed(changed, None if row is None else revisions.state_of(row), actor)
        # The permission contains the group's name, and the group may be renamed before publishing.
        grant_membership(given.get("permission") or "")
        new.values = _differing(kind, row, source, given, stored)
        _keep_upload(new, given, uploads)
        store(new, row, actor, note)
        uploads.pop_all()
    return new


def store(draft: Draft, row: Any, actor: Any, note: str) -> None:
    """Store a draft with its new values as the draft of ``row``, or of a new row if ``row`` is None."""
    kind = pending_drafts.DRAFTED[draft.kind]
    draft.key = _key(draft, kind, row)
    draft.version += 0 if draft._state.adding else 1
    draft.revision = revisions.last_revision(row) if row is not None else 0
    draft.note, draft.author = note, revisions.stored_actor(actor)
    draft.save()
    pending_drafts.audit_draft(draft, "catalogue.draft_saved", actor, {"why": note} if note else {})


def publish_draft(*, draft: Draft, actor: Any, why: str = "", seen: int | None = None) -> Any:
    """Publish a draft and return the entry. If ``why`` is empty, the draft's note is used.

    Raises ChangedMeanwhile if the entry changed since the draft was saved. If ``seen`` is given, it is
    compared with the entry's newest revision instead. Raises ValidationError if the result would be invalid.
    """
    services.refuse_unless_publisher(actor)
    with transaction.atomic():
        revisions.lock()
        stored = as_seen(draft)
        row = pending_drafts.entry_of(stored)
        if row is not None:
            services.refuse_stale(row, stored.revision if seen is None else seen)
        author = publisher(stored, actor, why)
        with _opened(stored, row) as change:
            published = services.write_change(change=change, author=author)
        pending_drafts.drop(stored)
    return published


def publisher(draft: Draft, actor: Any, why: str) -> ChangeAuthor:
    """Return the author of the change that publishes a draft. The draft's note replaces an empty reason."""
    detail = {"drafted_by": str(draft.author) if draft.author else "system"}
    why = revisions.checked_why(why) or draft.note
    return ChangeAuthor(actor=actor, action="published", why=why, detail=detail)


def publish_drafts(*, drafts: Sequence[Draft], actor: Any, why: str = "") -> int:
    """Publish several drafts as one revision, and return the revision.

    Raises ChangedMeanwhile or ValidationError, and publishes nothing, if a draft cannot be published.
    """
    services.refuse_unless_publisher(actor)
    with transaction.atomic(), ExitStack() as files:
        revisions.lock()
        stored = [as_seen(draft) for draft in drafts]
        changes = []
        for each in stored:
            row = pending_drafts.entry_of(each)
            if row is not None:
                services.refuse_stale(row, each.revision)
            changes.append(files.enter_context(_opened(each, row)))
        revision = services.change_entries(changes=changes, actor=actor, why=why)
        for each in stored:
            pending_drafts.drop(each)
    return revision


def discard_draft(*, draft: Draft, actor: Any) -> None:
    """Delete a draft. Only the audit trail records this, because drafts are not in the history."""
    with transaction.atomic():
        revisions.lock()
        stored = as_seen(draft)
        pending_drafts.audit_draft(stored, "catalogue.draft_discarded", actor, {})
        pending_drafts.drop(stored)


def check_draft(draft: Draft) -> None:
    """Raise the ValidationError that publishing this draft would raise. Nothing is written."""
    with _opened(draft, pending_drafts.entry_of(draft)) as change:
        services.check_change(change)


def states_of(draft: Draft, row: Row | None) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Return the entry's editable state without the draft (None for a new entry) and with the draft."""
    kind, source = pending_drafts.KIND_NAMED[draft.kind], source_in(draft, row)
    if row is None:
        return None, states.empty_state(kind, source) | draft.values
    now = states.editable_part(kind, source, revisions.state_of(row))
    return now, now | draft.values


def source_in(draft: Draft, row: Row | None) -> Source:
    """Return the source of a draft's entry, which is None for a new entry."""
    return named(pending_drafts.KIND_NAMED[draft.kind], draft.source) if row is None else source_of(row)


def _new(kind: type[Any], row: Row | None, source: Source | None) -> Draft:
    if row is not None:
        return Draft(kind=kind.KIND, entry_id=row.pk, source=row.source)
    return Draft(kind=kind.KIND, source=(source or made_here(kind)).stored)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the caller set.

    Without a new upload, forms pass the stored file or None as ``file``; both are dropped.
    """
    given = {name: value for name, value in values.items() if not isinstance(value, FieldFile)}
    if given.get("file", "") is None:
        del given["file"]
    if "file" in given and not given["file"]:
        given["file"] = ""
    return given


def pending_as_seen(kind: type[Any], row: Any, draft: Draft | None) -> Draft | None:
    """Return the pending draft. Raises ChangedMeanwhile if it is not the draft that the caller read."""
    if draft is None:
        stored = pending_drafts.draft_of(row) if row is not None else None
        if stored is not None:
            raise ChangedMeanwhile(f"{stored.author or 'The system'} saved a draft meanwhile. Review it.")
        return None
    stored = as_seen(draft)
    if (stored.kind, stored.entry_id) != (kind.KIND, row.pk if row is not None else None):
        raise ChangedMeanwhile(GONE)
    return stored


def as_seen(draft: Draft) -> Draft:
    """Return the stored draft. Raises ChangedMeanwhile if it was deleted or saved again."""
    stored = Draft.objects.select_related("author").filter(pk=draft.pk).first()
    if stored is None:
        raise ChangedMeanwhile(GONE)
    if stored.version != draft.version:
        raise ChangedMeanwhile(
            f"{stored.author or 'The system'} saved this draft again meanwhile. Review it."
        )
    return stored


def _differing(
    kind: type[Any], row: Row | None, source: Source, given: Mapping[str, Any], stored: Draft | None
) -> dict[str, Any]:
    now = states.empty_state(kind, source)
    if row is not None:
        now = states.editable_part(kind, source, revisions.state_of(row))
    differing = {
        name: kept
        for name, value in given.items()
        if name in now and name != "file" and (kept := states.stored_form(value)) != now[name]
    }
    if given.get("file"):
        differing["file"] = PurePath(given["file"].name).name
    elif "file" in given:
        differing |= {"file": ""} if now["file"] else {}
    elif stored is not None and "file" in stored.values:
        differing["file"] = stored.values["file"]
    if not differing:
        raise ValidationError("No changes: the draft equals the published entry.")
    check_storable(differing)
    return differing


def _key(draft: Draft, kind: type[Any], row: Any) -> str:
    if row is not None:
        return revisions.key_of(row)
    key: str = draft.values[kind.KEY]
    others = Draft.objects.filter(kind=draft.kind, entry_id=None, key=key).exclude(pk=draft.pk)
    if others.exists():
        raise ValidationError({kind.KEY: ["A draft of a new entry with this name exists already."]})
    return key


def _keep_upload(draft: Draft, given: Mapping[str, Any], uploads: ExitStack) -> None:
    if "file" not in given:
        return
    pending_drafts.forget_upload(draft)
    draft.file = ""
    if given["file"]:
        draft.file.save(draft.values["file"], given["file"], save=False)
        # A rollback does not remove the stored file.
        uploads.callback(draft.file.storage.delete, draft.file.name)


@contextmanager
def _with_kept_upload(given: Mapping[str, Any], stored: Draft | None) -> Iterator[dict[str, Any]]:
    """Yield the values, with the upload of the stored draft if there is no new upload."""
    if "file" in given or stored is None or "file" not in stored.values:
        yield dict(given)
        return
    with _upload(stored) as file:
        yield {**given, "file": file}


@contextmanager
def _opened(draft: Draft, row: Row | None) -> Iterator[EntryChange]:
    """Yield the change that publishing a draft would make, with the draft's upload open for reading."""
    if draft.entry_id is not None and row is None:
        raise ChangedMeanwhile(GONE)
    values = states.service_values(draft.values)
    with _upload(draft) as file:
        if "file" in draft.values:
            values["file"] = file
        kind = pending_drafts.KIND_NAMED[draft.kind]
        yield EntryChange(kind=kind, entry=row, values=values, source=source_in(draft, row))


@contextmanager
def _upload(draft: Draft) -> Iterator[Any]:
    if not draft.values.get("file"):
        yield ""
        return
    try:
        opened = draft.file.storage.open(str(draft.file.name), "rb")
    except OSError as error:
        raise ValidationError({"file": [_FILE_GONE]}) from error
    with opened:
        yield File(opened, name=draft.values["file"])
