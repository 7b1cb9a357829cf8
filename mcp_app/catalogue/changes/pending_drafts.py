"""Look-up and removal of pending drafts. ``drafts`` writes and publishes them."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from mcp_app.catalogue.changes import revisions
from mcp_app.models import Draft, Toolset, audit
from mcp_app.models.catalogue import ENTRY_KINDS, Row

KIND_NAMED = {kind.KIND: kind for kind in ENTRY_KINDS}
# All kinds of rows that have drafts. ``catalogue/toolsets/drafts.py`` writes those of toolsets.
DRAFTED: dict[str, type[Any]] = {**KIND_NAMED, Toolset.KIND: Toolset}


def draft_of(row: Row) -> Draft | None:
    """Return the pending draft of an entry."""
    return Draft.objects.filter(kind=revisions.kind_of(row), entry_id=row.pk).first()


def entry_of(draft: Draft) -> Any:
    """Return the row that a draft changes, or None for a draft of a new one."""
    if draft.entry_id is None:
        return None
    kind: Any = DRAFTED[draft.kind]
    return kind._default_manager.filter(pk=draft.entry_id).first()


def drop(draft: Draft) -> None:
    """Delete a draft and, after the commit, its upload."""
    forget_upload(draft)
    draft.delete()


def forget_upload(draft: Draft) -> None:
    """Delete a draft's file after the commit."""
    if draft.file.name:
        storage, name = draft.file.storage, draft.file.name
        transaction.on_commit(lambda: storage.delete(name))


def drop_with_entry(row: Row, actor: Any) -> None:
    """Delete the draft of an entry that is being deleted."""
    if (draft := draft_of(row)) is not None:
        drop(draft)
        audit_draft(draft, "catalogue.draft_discarded", actor, {"why": "the entry was deleted"})


def follow_name(row: Row) -> None:
    """Update the key of an entry's draft after the entry was renamed."""
    waiting = Draft.objects.filter(kind=revisions.kind_of(row), entry_id=row.pk)
    waiting.update(key=revisions.key_of(row))


def audit_draft(draft: Draft, action: str, actor: Any, detail: dict[str, Any]) -> None:
    """Write an audit event for a draft (S21)."""
    said = {"changed": sorted(draft.values), **detail}
    audit(actor=actor, action=action, object_kind=draft.kind, object_key=draft.key, detail=said)
