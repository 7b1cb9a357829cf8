"""A pending draft for display: its changes, later changes of the entry, and the user's permitted actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.urls import reverse

from mcp_app.admin.entries.differences import ShownDifference, faults, field_differences
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.interface.text import marked
from mcp_app.models import CatalogueChange, Draft

MAX_BETWEEN = 20
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Between:
    """A change that was made to an entry after the author of a draft had loaded the entry."""

    change: CatalogueChange
    fields: list[ShownDifference]


@dataclass(frozen=True, slots=True)
class DraftCard:
    """A draft for display. ``seen`` is the revision of the entry that the page shows.

    ``effect`` is the change of a toolset's members and tokens.
    """

    draft: Draft
    fields: list[ShownDifference]
    between: list[Between]
    faults: list[str]
    seen: int
    may_publish: bool
    may_edit: bool
    edit_url: str
    publish_url: str
    discard_url: str
    effect: Any = None

    @property
    def token(self) -> str:
        """The id and version of the draft. The form sends them back when it saves the draft."""
        return f"{self.draft.pk}:{self.draft.version}"

    @property
    def loss(self) -> str:
        """The text that asks to confirm the deletion of the draft. It lists the fields that would be lost."""
        kind, name = marked(self.draft.kind), marked(self.draft.key)
        if self.draft.entry_id is None:
            return f"Discard the new {kind} {name}? The draft is deleted permanently."
        lost = ", ".join(field.name for field in self.fields)
        what = f"The changes to {lost} are deleted" if lost else "The draft is deleted"
        return f"Discard the draft of the {kind} {name}? {what} permanently. The published {kind} stays."


def card_of(request: HttpRequest, draft: Draft, entry: Any) -> DraftCard:
    """Return a draft for display to this user. ``entry`` is None if the draft is of a new entry."""
    site = admin.site
    pages = entry_admin_of(draft)
    before, after = pages.draft_states(draft, entry)
    may_edit = may_edit_draft(request, draft, entry)
    return DraftCard(
        draft=draft,
        fields=field_differences(before, after, getattr(entry, "definition", None)),
        between=changes_since(entry, draft.revision, pages.shown_state) if entry is not None else [],
        faults=_faults(pages, draft),
        seen=revisions.last_revision(entry) if entry is not None else 0,
        may_publish=may_edit and may_publish(request.user),
        may_edit=may_edit,
        edit_url=f"{pages.draft_form_url(draft, entry)}?draft={draft.pk}",
        publish_url=reverse(f"{site.name}:mcp_app_draft_publish", args=[draft.pk]),
        discard_url=reverse(f"{site.name}:mcp_app_draft_discard", args=[draft.pk]),
        effect=pages.draft_effect(draft, entry),
    )


def entry_admin_of(draft: Draft) -> Any:
    """Return the admin object for the kind of entry to which the draft belongs."""
    return admin.site.get_model_admin(pending_drafts.DRAFTED[draft.kind])


def may_edit_draft(request: HttpRequest, draft: Draft, entry: Any) -> bool:
    """Return True if the user may save the draft again and may discard it."""
    return bool(entry_admin_of(draft).may_draft(request, entry if draft.entry_id is not None else None))


def entry_address(draft: Draft) -> str:
    """Return the URL of the entry's form, or of the form for a new entry if the entry does not exist."""
    model: Any = pending_drafts.DRAFTED[draft.kind]
    base = f"{admin.site.name}:{model._meta.app_label}_{model._meta.model_name}"
    return (
        reverse(f"{base}_add") if draft.entry_id is None else reverse(f"{base}_change", args=[draft.entry_id])
    )


def changes_since(
    entry: Any, revision: int, shown: Callable[[State | None], State | None] = lambda state: state
) -> list[Between]:
    """Return the changes of an entry after a revision, newest first, at most ``MAX_BETWEEN`` of them.

    ``shown`` converts a stored state for display.
    """
    history = revisions.history_of(revisions.kind_of(entry), revisions.key_of(entry), entry.pk)
    since = history.filter(revision__gt=revision).select_related("actor")[:MAX_BETWEEN]
    return [Between(change, field_differences(shown(change.before), shown(change.after))) for change in since]


def _faults(pages: Any, draft: Draft) -> list[str]:
    try:
        pages.check_draft(draft)
    except ValidationError as error:
        return faults(error)
    return []
