"""The shared admin of all catalogue entries: list, switch, bulk actions, and review of definitions."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.actions import delete_selected
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ORDER_VAR
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.db.models import Case, QuerySet, When
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.base import TextInput, object_button
from mcp_app.admin.entries.bench import BenchAdmin
from mcp_app.admin.entries.callers import about_permission, rule_of
from mcp_app.admin.entries.entry_filters import (
    DraftFilter,
    DriftFilter,
    EnabledFilter,
    MissingFilter,
    RestrictedFilter,
    SourceFilter,
    TagFilter,
)
from mcp_app.admin.entries.entry_history import HistoryPages
from mcp_app.admin.entries.entry_list import EntryList
from mcp_app.admin.entries.form_tabs import TabbedForm
from mcp_app.admin.entries.permission_action import PermissionAction
from mcp_app.admin.entries.switch import as_switched, asks_for_json, switched
from mcp_app.admin.entries.transfer import buttons
from mcp_app.admin.markup import diff
from mcp_app.admin.widgets import JsonField, PermissionField, TagsField
from mcp_app.auth.permissions import people_permission
from mcp_app.catalogue.access import obstacle_of
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.services import (
    accept_definition,
    delete_entries,
    delete_entry,
    may_publish,
    save_entry,
    set_enabled,
)
from mcp_app.catalogue.sources.lookup import deletable, source_of
from mcp_app.interface.text import has_hidden, marked, visible, visible_block
from mcp_app.models import Call, Draft, Tool
from mcp_app.protocol.call_state import State

Entry = Any


class EntryAdmin(BenchAdmin, TabbedForm, EntryList, PermissionAction, HistoryPages):
    """Admin pages of a kind of catalogue entry.

    All changes are written by ``mcp_app.catalogue.changes.services``.
    """

    key_field: ClassVar[str] = "name"
    change_list_template = "mcp_admin/entries.html"
    change_form_template = "mcp_admin/entry_form.html"
    add_form_template = "mcp_admin/entry_form.html"
    delete_confirmation_template = "mcp_admin/entry_delete.html"
    list_display_links = ("key",)
    list_filter: ClassVar[Any] = (
        SourceFilter,
        TagFilter,
        EnabledFilter,
        RestrictedFilter,
        DraftFilter,
        DriftFilter,
        MissingFilter,
    )
    actions: Any = (
        "enable_entries",
        "disable_entries",
        "set_permission",
        "duplicate_entries",
        "delete_selected",
    )

    # Permissions.

    def has_delete_permission(self, request: HttpRequest, obj: Entry | None = None) -> bool:
        """Allow deletion of entries made in the admin and of entries missing from their source.

        The source would restore any other entry. The permissions to view and to publish are required as well,
        because the confirmation page shows the entry and related rows.
        """
        may = super().has_delete_permission(request, obj) and self.has_view_permission(request, obj)
        may = may and may_publish(request.user)
        return may and (obj is None or not source_of(obj).follows or obj.missing)

    def has_switch_permission(self, request: HttpRequest, obj: Entry | None = None) -> bool:
        """Return True if the user may change entries and publish. The switch takes effect immediately."""
        return self.has_change_permission(request, obj) and may_publish(request.user)

    def has_copy_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may add entries and publish. A copy is published immediately."""
        return self.has_add_permission(request) and may_publish(request.user)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search entries. Exact matches of the name come first, then names that begin with the search term.

        If the user chose an order, that order applies instead.
        """
        found, repeats = super().get_search_results(request, queryset, search_term)
        if (term := search_term.strip()) and ORDER_VAR not in request.GET:
            named = Case(
                When(**{f"{self.key_field}__iexact": term}, then=0),
                When(**{f"{self.key_field}__istartswith": term}, then=1),
                default=2,
            )
            found = found.order_by(named, *found.query.order_by)
        return found, repeats

    def get_readonly_fields(self, request: HttpRequest, obj: Entry | None = None) -> Any:
        """Make the name of an existing entry read-only, because clients refer to the entry by this name."""
        if obj is None:
            return ()
        kept = () if source_of(obj).follows else (self.key_field,)
        return (*kept, *self.definition_fields_of(obj))

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Use the JSON editor for JSON fields, words for tags, and a choice of existing permissions."""
        if db_field.name == "tags":
            return TagsField(label="Tags", help_text=db_field.help_text, required=False, widget=TextInput())
        if isinstance(db_field, models.JSONField):
            shape = db_field.default if db_field.default in (list, dict) else None
            return JsonField(
                shape=shape,
                label=db_field.verbose_name.capitalize(),
                help_text=db_field.help_text,
                required=not db_field.blank,
                initial=shape() if shape else None,
            )
        if db_field.name == "permission":
            return PermissionField(
                current=self._current_permission(request),
                label="Who can use it",
                help_text=about_permission(request),
            )
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def _current_permission(self, request: HttpRequest) -> str:
        object_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
        entry = self.get_object(request, unquote(object_id)) if object_id else None
        return str(entry.permission) if entry is not None else ""

    # Writing. When these hooks run, the form has already written the entry through the service.

    def save_model(self, request: HttpRequest, obj: Entry, form: Any, change: bool) -> None:
        """Do nothing, because the form has already written the entry through the service."""

    def delete_model(self, request: HttpRequest, obj: Entry) -> None:
        delete_entry(entry=obj, actor=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete the selected entries as one revision."""
        delete_entries(entries=list(queryset), actor=request.user)

    # The list.

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the list.

        It has links to drafts, deleted entries, export, import, and the add form of each source.
        """
        more = {
            **buttons(request, self.admin_site.name),
            "add_choice": self.add_choice(request),
            "drafts_waiting": Draft.objects.filter(kind=self.kind).count(),
            "drafts_url": reverse(f"{self.admin_site.name}:mcp_app_draft_changelist") + f"?kind={self.kind}",
            "deleted_url": reverse(self.url_name("deleted")),
        }
        return super().changelist_view(request, {**more, **(extra_context or {})})

    @admin.display(description="updated by")
    def editor(self, entry: Entry) -> SafeString:
        """Return the name of the user who last changed the entry."""
        return visible(entry.updated_by or source_of(entry).origin or "–")

    # Bulk actions.

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        """Add the address of the list from which entries are restored, and the number of waiting calls."""
        entry = self.get_object(request, unquote(object_id))
        waits = Call.objects.filter(tool=str(entry), state=State.APPROVAL_NEEDED)
        more = {
            "deleted_url": reverse(self.url_name("deleted")),
            "waiting": waits.count() if isinstance(entry, Tool) else 0,
        }
        return super().delete_view(request, object_id, more)

    @admin.action(description="Enable selected", permissions=["switch"])
    def enable_entries(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Enable the selected entries."""
        self._set_enabled(request, queryset, enabled=True)

    @admin.action(description="Disable selected", permissions=["switch"])
    def disable_entries(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Disable the selected entries."""
        self._set_enabled(request, queryset, enabled=False)

    def _set_enabled(self, request: HttpRequest, queryset: QuerySet[Any], *, enabled: bool) -> None:
        changed = set_enabled(entries=list(queryset), enabled=enabled, actor=request.user)
        text = switched(f"{changed} of {len(queryset)}", enabled, notified=changed > 0)
        self.show_undoable(request, text, changed=changed > 0)

    @admin.action(description="Duplicate selected", permissions=["copy"])
    def duplicate_entries(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Copy the selected entries under new names. The copies are disabled at first."""
        for entry in queryset:
            if source_of(entry).follows:
                where = source_of(entry).origin
                why = f"is defined in {where}. Add a preset or another entry instead."
                self._refuse(request, "Not duplicated", entry, why)
                continue
            try:
                copy = self.duplicate(entry, request.user)
            except ValidationError as error:
                why = "cannot be copied: " + " ".join(error.messages)
                self._refuse(request, "Not duplicated", entry, why)
            else:
                text = f"Duplicated {marked(entry)} as {marked(copy)}, which is disabled."
                self.message_user(request, text, messages.SUCCESS)

    def duplicate(self, entry: Entry, actor: Any, **changed: Any) -> Entry:
        """Create a disabled copy under a free name.

        Raises ValidationError if the service refuses the copy.
        """
        source = source_of(entry)
        values = {name: getattr(entry, name) for name in source.editable(self.model)}
        free = {self.key_field: self._free_key(getattr(entry, self.key_field)), "enabled": False}
        return save_entry(kind=self.model, actor=actor, source=source, **{**values, **free, **changed})

    def _free_key(self, key: str) -> str:
        """Return a free name for a copy: ``key-copy``, ``key-copy-2`` and so on.

        The name is shortened to the maximum length of its column.
        """
        column: Any = self.opts.get_field(self.key_field)
        for number in range(1, 1000):
            suffix = "-copy" if number == 1 else f"-copy-{number}"
            candidate = key[: column.max_length - len(suffix)] + suffix
            if not self.model._default_manager.filter(**{self.key_field: candidate}).exists():
                return candidate
        raise ValidationError("Every name for a copy is taken.")

    def _refuse(self, request: HttpRequest, what: str, entry: Entry, why: str) -> None:
        # The message must not begin with the name, because Django's templates capitalize the first letter.
        self.message_user(request, f"{what}: {marked(entry)} {why}", messages.WARNING)

    @admin.action(description="Delete selected", permissions=["delete"])
    def delete_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Delete those selected entries that may be deleted, after a confirmation.

        For each other entry, a message gives the reason.
        """
        for entry in queryset.exclude(deletable()):
            where = source_of(entry).origin
            self._refuse(request, "Not deleted", entry, f"is defined in {where}. Disable it instead.")
        going = queryset.filter(deletable())
        return delete_selected(self, request, going) if going.exists() else None

    # Buttons and pages of an entry.

    @object_button("switch")
    def switch(self, request: HttpRequest, entry: Entry) -> HttpResponse | None:
        """Enable or disable an entry.

        The script of the list requests JSON and updates the row without reloading the page.
        """
        if not self.has_switch_permission(request, entry):
            raise PermissionDenied
        enabled = request.POST.get("mcp-enabled") == "1"
        changed = set_enabled(entries=[entry], enabled=enabled, actor=request.user)
        text = switched(marked(entry), enabled, notified=changed > 0)
        if asks_for_json(request):
            entry.refresh_from_db()
            more = {"undo": self.undo_offer(request)} if changed else {}
            return JsonResponse(as_switched(entry, text) | more)
        self.show_undoable(request, text, changed=changed > 0)
        return None

    @object_button("accept")
    def accept(self, request: HttpRequest, entry: Entry) -> None:
        """Accept the current definition."""
        if not self.has_change_permission(request, entry):
            raise PermissionDenied
        accept_definition(entry=entry, actor=request.user)
        self.message_user(request, f"The new definition of {marked(entry)} is accepted.", messages.SUCCESS)

    def form_context(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return the template context of an entry's form.

        It contains the changes of the definition since it was accepted, links, and the actions that the user
        may take.
        """
        entry = self.get_object(request, unquote(object_id))
        more: dict[str, Any] = {}
        if entry is not None:
            more["try_url"] = self.page_url("try", entry) if self.has_try_permission(request) else None
            more["callers_url"] = self.callers_url(request, entry)
            more["rule"] = "" if more["callers_url"] else rule_of(entry)
            more["obstacle"] = obstacle_of(entry)
            more["view_people"] = people_permission()
            if not self.has_change_permission(request, entry):
                more["change_permission"] = f"mcp_app.change_{self.opts.model_name}"
            if self.kind == "tool" and request.user.has_perm("mcp_app.view_message"):
                asked = urlencode({"tool": entry.name, "range": "week", "by": "principal"})
                more["figures_url"] = f"{reverse('admin:mcp_app_message_figures')}?{asked}"
            if preset := self.preset_link(request, entry):
                fixed = {"preset_of": preset["tool"], "fixed_arguments": json.dumps(preset["fixed"])}
                more["preset_url"] = f"{preset['url']}?{urlencode(fixed)}"
            more["gone"] = source_of(entry).gone if entry.missing else ""
            more["hidden_in"] = _with_hidden_characters(entry)
            if source_of(entry).follows or not self.has_copy_permission(request):
                more["show_save_and_add_another"] = False
        if entry is not None and entry.drifted:
            more["origin"] = source_of(entry).origin
            more["drift"] = diff(self._reviewed_definition(entry), entry.definition)
            more["may_accept"] = self.has_change_permission(request, entry)
        return more

    def _reviewed_definition(self, entry: Entry) -> Any:
        for change in revisions.history_of(self.kind, revisions.key_of(entry), entry.pk)[:200]:
            if _member(change.after, "definition_hash") == entry.reviewed_hash:
                return _member(change.after, "definition")
        return None


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _with_hidden_characters(entry: Entry) -> list[tuple[str, SafeString]]:
    # Input fields cannot highlight hidden characters, so copies with marked characters are shown beside them.
    texts = [(name, getattr(entry, name, "")) for name in ("title", "description", "template", "text")]
    return [(name, visible_block(text)) for name, text in texts if has_hidden(text)]
