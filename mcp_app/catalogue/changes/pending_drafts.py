"""The drafts that wait: finding them and letting them go. Writing and publishing them is in ``drafts``."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from mcp_app.catalogue.changes import revisions
from mcp_app.models import Draft, audit
from mcp_app.models.catalogue import ENTRY_KINDS, Row

KIND_NAMED = {kind.KIND: kind for kind in ENTRY_KINDS}


def draft_of(row: Row) -> Draft | None:
    """The draft that waits for an entry."""
    return Draft.objects.filter(kind=revisions.kind_of(row), entry_id=row.pk).first()


def entry_of(draft: Draft) -> Any:
    """The entry a draft changes; None when the draft is of a new one."""
    if draft.entry_id is None:
        return None
    kind: Any = KIND_NAMED[draft.kind]
    return kind._default_manager.filter(pk=draft.entry_id).first()


def drop(draft: Draft) -> None:
    """Remove a draft and, once that is certain, its upload."""
    forget_upload(draft)
    draft.delete()


def forget_upload(draft: Draft) -> None:
    """Remove a draft's file once nothing can refer to it any more."""
    if draft.file.name:
        storage, name = draft.file.storage, draft.file.name
        transaction.on_commit(lambda: storage.delete(name))


def drop_with_entry(row: Row, actor: Any) -> None:
    """An entry that goes takes its draft along."""
    if (draft := draft_of(row)) is not None:
        drop(draft)
        tell(draft, "catalogue.draft_discarded", actor, {"why": "the entry was deleted"})


def follow_name(row: Row) -> None:
    """A draft is listed under what its entry is called now."""
    waiting = Draft.objects.filter(kind=revisions.kind_of(row), entry_id=row.pk)
    waiting.update(key=revisions.key_of(row))


def tell(draft: Draft, action: str, actor: Any, detail: dict[str, Any]) -> None:
    """Say who did it (S21)."""
    said = {"changed": sorted(draft.values), **detail}
    audit(actor=actor, action=action, object_kind=draft.kind, object_key=draft.key, detail=said)
