"""Admin pages of drafts: the list of pending drafts, the page of a new entry, publishing and discarding."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.entries.differences import faults, label
from mcp_app.admin.entries.draft_card import card_of, entry_address, entry_admin_of, may_edit_draft
from mcp_app.admin.markup import badge
from mcp_app.auth.api_keys import login_name
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.drafts import discard_draft
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.interface.text import marked, visible
from mcp_app.models import Draft


class KindFilter(admin.SimpleListFilter):
    """List filter by kind of entry. It offers the kinds of pending drafts."""

    title, parameter_name = "kind", "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        drafts = Draft.objects.filter(kind__in=_kinds_seen(request)).order_by("kind")
        found = list(drafts.values_list("kind", flat=True).distinct())
        return [(kind, kind) for kind in found] if len(found) > 1 or self.value() else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Draft]) -> QuerySet[Draft]:
        return queryset.filter(kind=self.value()) if self.value() else queryset


@admin.register(Draft)
class DraftAdmin(RowPageAdmin[Draft]):
    """Admin pages of all drafts. A user who may view an entry may also view its draft."""

    list_display = ("key_shown", "kind_shown", "changed", "shown_author", "shown_note", "saved")
    list_display_links = ("key_shown",)
    list_filter = (KindFilter,)
    search_fields = ("key", "note", login_name("author"))
    search_help_text = "Name, reason or author"
    list_select_related = ("author",)
    actions = None

    # Permissions on a draft follow from those on its entry.

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may view at least one kind of entry."""
        return bool(_kinds_seen(request))

    def has_view_permission(self, request: HttpRequest, obj: Draft | None = None) -> bool:
        """Return True if the user may view the kind of entry to which the draft belongs.

        Without a draft, return True if the user may view at least one kind.
        """
        kinds = _kinds_seen(request)
        return obj.kind in kinds if obj is not None else bool(kinds)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Draft]:
        return super().get_queryset(request).filter(kind__in=_kinds_seen(request))

    # The list.

    @admin.display(description="name", ordering="key")
    def key_shown(self, draft: Draft) -> SafeString:
        """Return the name of the entry, with a badge if the entry is new."""
        new = format_html(" {}", badge("new", "info")) if draft.entry_id is None else ""
        return format_html("{}{}", visible(draft.key), new)

    @admin.display(description="kind", ordering="kind")
    def kind_shown(self, draft: Draft) -> str:
        """Return the kind of entry: tool, prompt, resource, template or toolset."""
        return draft.kind

    @admin.display(description="changes")
    def changed(self, draft: Draft) -> str:
        """Return the labels of the changed fields."""
        return ", ".join(map(label, draft.values))

    shown_author = text_column("author", "author", ordering="author", empty="–")
    shown_note = text_column("reason", "note", empty="–")
    saved = time_column("saved", "updated_at")

    # The page of a draft.

    def row_page(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        """Show the draft of a new entry.

        A draft of an existing entry is shown on the page of that entry, to which this view redirects.
        """
        if draft.entry_id is not None:
            return HttpResponseRedirect(entry_address(draft))
        context = {
            **self.object_context(request, f"Draft of a new {draft.kind}: {marked(draft.key)}"),
            "card": card_of(request, draft, None),
        }
        return TemplateResponse(request, "mcp_admin/draft.html", context)

    @object_button("publish")
    def publish(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        """Publish the draft. The service refuses if draft or entry changed after the page was loaded."""
        entry = pending_drafts.entry_of(draft)
        if not (may_edit_draft(request, draft, entry) and may_publish(request.user)):
            raise PermissionDenied
        draft.version = _number(request, "version", draft.version)
        seen = _number(request, "seen", draft.revision)
        try:
            published = entry_admin_of(draft).publish_draft(
                draft=draft, actor=request.user, why=request.POST.get("why", ""), seen=seen
            )
        except ValidationError as error:
            return self._refused(request, draft, error)
        text = f"Published: {marked(revisions.key_of(published))}. Clients are notified now."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(entry_admin_of(draft).page_url("change", published))

    @object_button("discard")
    def discard(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        """Delete the draft. The service refuses if the draft changed after the page was loaded."""
        if not may_edit_draft(request, draft, pending_drafts.entry_of(draft)):
            raise PermissionDenied
        draft.version = _number(request, "version", draft.version)
        try:
            discard_draft(draft=draft, actor=request.user)
        except ValidationError as error:
            return self._refused(request, draft, error)
        self.message_user(request, f"Discarded the draft of {marked(draft.key)}.", messages.SUCCESS)
        is_new = draft.entry_id is None
        return HttpResponseRedirect(self.page_url("changelist") if is_new else entry_address(draft))

    def _refused(self, request: HttpRequest, draft: Draft, error: ValidationError) -> HttpResponse:
        for text in faults(error):
            self.message_user(request, f"Nothing was changed: {text}", messages.ERROR)
        if not Draft.objects.filter(pk=draft.pk).exists():
            return HttpResponseRedirect(self.page_url("changelist"))
        return HttpResponseRedirect(self.page_url("change", draft))


def _kinds_seen(request: HttpRequest) -> list[str]:
    kinds: dict[str, Any] = dict(pending_drafts.DRAFTED)
    return [
        kind
        for kind, model in kinds.items()
        if admin.site.get_model_admin(model).has_view_permission(request)
    ]


def _number(request: HttpRequest, name: str, usual: int) -> int:
    """Return a number from the POST data.

    A malformed number becomes -1, which the service treats as an outdated version.
    """
    text = request.POST.get(name)
    if text is None:
        return usual
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
