"""The list action that sets the permission of several entries, after a page that confirms it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst

from mcp_app.admin.entries.callers import about_permission, rule_of
from mcp_app.admin.entries.differences import faults
from mcp_app.admin.entries.switch import SwitchUndo
from mcp_app.admin.widgets import PermissionField
from mcp_app.catalogue.access import holders_in_words
from mcp_app.catalogue.changes import pending_drafts, states
from mcp_app.catalogue.changes.drafts import save_draft
from mcp_app.catalogue.changes.services import may_publish, set_permissions
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.interface.text import marked, visible

MOST_AT_ONCE: Final = 500
CONFIRMED: Final = "permission_chosen"
# The preselected choice. Otherwise, one careless click would open all selected entries to everyone.
UNCHOSEN: Final = "?"
Entry = Any


class PermissionForm(forms.Form):
    """The permission to set, and the reason."""

    def __init__(self, request: HttpRequest, data: Any = None) -> None:
        super().__init__(data)
        field: Any = PermissionField(
            label="Who can use it", initial=UNCHOSEN, help_text=about_permission(request)
        )
        field.choices = [(UNCHOSEN, "Choose…"), *field.choices]
        self.fields["permission"] = field

    def clean_permission(self) -> str:
        """Return the permission. Raises ValidationError if the user chose none."""
        chosen: str = self.cleaned_data["permission"]
        if chosen == UNCHOSEN:
            raise ValidationError("Choose who can use them.")
        return chosen


class PermissionAction(SwitchUndo):
    """The action "Change who can use it…". For users who may not publish, it saves drafts."""

    kind: ClassVar[str]

    @admin.action(description="Change who can use it…", permissions=["change"])
    def set_permission(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Show the page that asks for the permission, or set the permission chosen on that page."""
        entries = list(queryset[: MOST_AT_ONCE + 1])
        if len(entries) > MOST_AT_ONCE:
            text = f"Nothing was changed: select at most {MOST_AT_ONCE} {self.opts.verbose_name_plural}."
            self.message_user(request, text, messages.WARNING)
            return None
        form = PermissionForm(request, request.POST if CONFIRMED in request.POST else None)
        if not form.is_valid():
            return self._ask(request, form, entries)
        permission, why = form.cleaned_data["permission"], request.POST.get("why", "")
        try:
            if may_publish(request.user):
                self._publish_all(request, entries, permission, why)
            else:
                self._draft_all(request, entries, permission, why)
        except ValidationError as error:
            for text in faults(error):
                form.add_error(None, text)
            return self._ask(request, form, entries)
        return None

    def _ask(self, request: HttpRequest, form: PermissionForm, entries: list[Entry]) -> HttpResponse:
        context = {
            **self.object_context(request, f"Change who can use {self._counted(len(entries))}"),
            "form": form,
            "rows": [
                (entry.pk, visible(getattr(entry, entry.KEY)), rule_of(entry), _stated(entry))
                for entry in entries
            ],
            "checkbox": ACTION_CHECKBOX_NAME,
            "confirmed": CONFIRMED,
            "publishes": may_publish(request.user),
            "why": request.POST.get("why", ""),
        }
        return TemplateResponse(request, "mcp_admin/set_permission.html", context)

    def _publish_all(self, request: HttpRequest, entries: Iterable[Entry], permission: str, why: str) -> None:
        wanted = [(entry, permission) for entry in entries]
        changed = set_permissions(wanted=wanted, actor=request.user, why=why)
        effect = "Clients are notified now." if changed else "Nothing was changed."
        who = capfirst(holders_in_words(permission))
        text = f"{who} can use {self._counted(changed)}. {effect}" if changed else effect
        self.show_undoable(request, text, changed=changed > 0)

    def _draft_all(self, request: HttpRequest, entries: Iterable[Entry], permission: str, why: str) -> None:
        """Save the permission in a draft of each entry. Either all drafts are saved, or none."""
        saved = 0
        with transaction.atomic():
            for entry in entries:
                try:
                    saved += _saved_draft(request.user, entry, permission, why)
                except ValidationError as error:
                    raise ValidationError(f"{marked(entry)}: {' '.join(error.messages)}") from error
        then = "They take effect when they are published."
        self.message_user(request, f"Drafts saved: {saved}. {then}", messages.SUCCESS)

    def _counted(self, number: int) -> str:
        words = self.opts.verbose_name if number == 1 else self.opts.verbose_name_plural
        return f"{number} {words}"


def _saved_draft(actor: Any, entry: Entry, permission: str, why: str) -> bool:
    """Save the permission in the entry's draft. Return False if the draft or entry has it already."""
    draft = pending_drafts.draft_of(entry)
    before = states.service_values(draft.values) if draft is not None else {}
    if before.get("permission", entry.permission) == permission:
        return False
    values = {**before, "permission": permission}
    note = why or (draft.note if draft is not None else "")
    save_draft(kind=type(entry), actor=actor, entry=entry, draft=draft, note=note, **values)
    return True


def _stated(entry: Entry) -> str:
    """Return a phrase about the permission that the entry's source requires, or ""."""
    source = source_of(entry)
    stated = source.in_force(entry).get("permission")
    return f"{source.origin} requires {marked(stated)}" if stated else ""
