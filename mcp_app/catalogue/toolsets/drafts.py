"""Drafts of toolsets. They are stored beside drafts of entries and follow ``changes/drafts.py``.

``discard_draft`` of that module deletes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from mcp_app.auth.membership import grant_membership
from mcp_app.catalogue.changes import drafts, pending_drafts, revisions
from mcp_app.catalogue.changes.services import ChangedMeanwhile, refuse_stale, refuse_unless_publisher
from mcp_app.catalogue.toolsets import services
from mcp_app.catalogue.toolsets.checks import check, sound
from mcp_app.models import Draft, Toolset


def save_toolset_draft(
    *,
    actor: Any,
    toolset: Toolset | None = None,
    draft: Draft | None = None,
    note: str = "",
    seen: int | None = None,
    **values: Any,
) -> Draft:
    """Store changed values as a draft of a toolset, or of a new one if ``toolset`` is None.

    ``draft`` is the pending draft and ``seen`` the revision of the toolset that the caller read. Raises
    ValidationError if publishing would raise it, or if no value differs.
    """
    note = revisions.checked_why(note)
    with transaction.atomic():
        row = None if toolset is None else services.locked(toolset)
        revisions.lock()
        pending = drafts.pending_as_seen(Toolset, row, draft)
        if row is not None:
            refuse_stale(_any(row), seen)
        before = services.state_of(sound(row or Toolset()))
        after = services.state_of(_changed(row, values))
        for permission in after["permissions"]:
            grant_membership(permission)
        new = pending or Draft(kind=Toolset.KIND, entry_id=None if row is None else row.pk)
        new.values = {name: value for name, value in after.items() if before[name] != value}
        if not new.values:
            raise ValidationError("No changes: the draft equals the published toolset.")
        drafts.store(new, row, actor, note)
    return new


def publish_toolset_draft(*, draft: Draft, actor: Any, why: str = "", seen: int | None = None) -> Toolset:
    """Publish a draft and return the toolset. The arguments and errors are those of ``publish_draft``."""
    refuse_unless_publisher(actor)
    with transaction.atomic():
        revisions.lock()
        stored = drafts.as_seen(draft)
        row = _toolset_of(stored)
        author = drafts.publisher(stored, actor, why)
        expected = stored.revision if seen is None else seen
        published = services.publish(toolset=row, values=stored.values, author=author, seen=expected)
        pending_drafts.drop(stored)
    return published


def drafted(draft: Draft) -> Toolset:
    """Return the toolset with the values of a draft, unsaved and unchecked."""
    row = _toolset_of(draft) or Toolset()
    for name, value in draft.values.items():
        setattr(row, name, value)
    return row


def check_toolset_draft(draft: Draft) -> None:
    """Raise the ValidationError that publishing this draft would raise. Nothing is written."""
    _changed(_toolset_of(draft), draft.values)


def _toolset_of(draft: Draft) -> Toolset | None:
    row: Toolset | None = pending_drafts.entry_of(draft)
    if draft.entry_id is not None and row is None:
        raise ChangedMeanwhile(drafts.GONE)
    return None if row is None else sound(row)


def _changed(toolset: Toolset | None, values: Mapping[str, Any]) -> Toolset:
    """Return a checked copy of a toolset with other values, unsaved."""
    row = Toolset() if toolset is None else sound(Toolset.objects.get(pk=toolset.pk))
    before = None if toolset is None else services.state_of(row)
    services.fill(row, values, before)
    check(row, before)
    return row


def _any(row: Any) -> Any:
    return row
