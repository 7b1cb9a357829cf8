"""The admin pages of toolsets."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.entries.entry_history import HistoryPages
from mcp_app.admin.markup import badge
from mcp_app.admin.toolsets.forms import ToolsetForm, rule_line
from mcp_app.auth.own_addresses import resource
from mcp_app.auth.permissions import PermissionMissing, may_view_people
from mcp_app.catalogue.access import holder_of, toolset_decision
from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.changes.rolling_back import RollBack, state_after
from mcp_app.catalogue.changes.services import PUBLISH, EntryChange, may_publish
from mcp_app.catalogue.search import misses
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.catalogue.toolsets import contents, services
from mcp_app.catalogue.toolsets.checks import sound
from mcp_app.catalogue.toolsets.groups import names_of
from mcp_app.interface.text import marked
from mcp_app.models import CatalogueChange, Toolset
from mcp_app.protocol.messages.server import ENDPOINT

VIEW = "mcp_app.view_toolset"
ADD = (VIEW, "mcp_app.add_toolset", PUBLISH)
CHANGE = (VIEW, "mcp_app.change_toolset", PUBLISH)
DELETE = (VIEW, "mcp_app.delete_toolset", PUBLISH)


@admin.register(Toolset)
class ToolsetAdmin(HistoryPages, RowPageAdmin[Toolset]):
    """Admin pages of toolsets. Changes are written by ``catalogue/toolsets/services.py``."""

    kind = Toolset.KIND
    change_list_template = "mcp_admin/toolsets.html"
    list_display = ("slug", "title_shown", "who", "entries", "tokens", "status", "updated")
    list_display_links = ("slug",)
    search_fields = ("slug", "title")
    search_help_text = "Slug or title."
    actions = None

    title_shown = text_column("title", "title", ordering="title", empty="-")
    updated = time_column("updated", "updated_at")

    @admin.display(description="who can use it")
    def who(self, row: Toolset) -> str:
        """Return the users who can use the toolset."""
        return who_can_use(row)

    @admin.display(description="entries")
    def entries(self, row: Toolset) -> int:
        """Return the number of entries that the toolset offers now."""
        return len(_contents(row).members)

    @admin.display(description="tokens")
    def tokens(self, row: Toolset) -> str:
        """Return the estimated tokens of the toolset's lists."""
        return f"{_contents(row).tokens:,}"

    @admin.display(description="state")
    def status(self, row: Toolset) -> SafeString:
        """Return badges for the states of the toolset."""
        state = badge("enabled", "good") if row.enabled else badge("disabled", "plain")
        return format_html("{} {}", state, badge(ENDPOINT, "info") if row.is_default else "")

    def get_urls(self) -> list[URLPattern]:
        edit = self.admin_site.admin_view(self.edit_view)
        return [path("<path:object_id>/edit/", edit, name="mcp_app_toolset_edit"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with a button to add a toolset."""
        address = self.page_url("add") if request.user.has_perms(ADD) else ""
        more = {"add_url": address, "deleted_url": self.page_url("deleted")}
        return super().changelist_view(request, {**more, **(extra_context or {})})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a toolset. Pages also show a damaged one, so that it can be repaired."""
        row = super().get_object(request, object_id, from_field)
        return row if row is None else sound(row)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the entries of each toolset, which are found together."""
        changelist: Any = super().get_changelist_instance(request)
        rows = [sound(row) for row in changelist.result_list]
        for row, found in zip(rows, contents.contents_of_each(rows), strict=True):
            vars(row)["contents"] = found
        changelist.result_list = rows
        return changelist

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Show the form of a new toolset (GET), or store it (POST)."""
        if not request.user.has_perms(ADD):
            raise PermissionMissing(*ADD)
        form = ToolsetForm(request)
        if request.method == "POST" and (row := form.stored()) is not None:
            self.message_user(request, f"Added {marked(row)}. Clients can use it now.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, "Add a toolset")

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form of a toolset (GET), or change it (POST)."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        if not request.user.has_perms(CHANGE):
            raise PermissionMissing(*CHANGE)
        form = ToolsetForm(request, row)
        if request.method == "POST" and form.stored() is not None:
            self.message_user(request, "Saved. Clients are notified now.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, f"Edit {marked(row)}", row)

    def row_page(self, request: HttpRequest, row: Toolset) -> HttpResponse:
        """Show the entries of a toolset, their cost, and who can use it."""
        found, may_read = contents.contents_of(row), request.user.has_perm("mcp_app.view_message")
        context = {
            **self.object_context(request, f"Toolset {marked(row)}", row),
            "row": row,
            "address": resource(path=path_of(row.slug)) if row.enabled else path_of(row.slug),
            "who": who_can_use(row),
            "rules": [rule_line(rule) for rule in row.rules],
            "contents": found,
            "unused": contents.unused_in(found) if may_read else None,
            # Queries are parts of messages.
            "misses": misses.of(row.slug) if row.searches and may_read else [],
            "unused_days": contents.UNUSED_DAYS,
            "may_change": request.user.has_perms(CHANGE),
            "may_remove": request.user.has_perms(DELETE),
            "addresses": {name: self.page_url(name, row) for name in ("change", "edit", "history", "remove")},
            **self._asked_user(request, row, found),
        }
        return TemplateResponse(request, "mcp_admin/toolset.html", context)

    @object_button("remove")
    def remove(self, request: HttpRequest, row: Toolset) -> HttpResponse:
        """Delete a toolset."""
        if not request.user.has_perms(DELETE):
            raise PermissionDenied
        services.delete_toolset(toolset=row, actor=request.user)
        self.message_user(request, f"Deleted {marked(row)}. Its streams have ended.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _asked_user(self, request: HttpRequest, row: Toolset, found: contents.Contents) -> dict[str, Any]:
        """Return the decision about the user that the page was asked about."""
        may, name = may_view_people(request.user), request.GET.get("user", "").strip()[:150]
        context: dict[str, Any] = {"may_ask": may, "asked": name}
        if not (may and name):
            return context
        users = get_user_model()
        user = users._default_manager.filter(**{users.USERNAME_FIELD: name}).first()
        if user is None:
            return context | {"unknown": True}
        holder = holder_of(user)
        decision = toolset_decision(row, holder)
        needing = (each for each in found.members if each.permission)
        lacking = [each for each in needing if each.permission not in holder.permissions]
        return context | {"decision": decision, "lacking": lacking if decision.can else []}

    def _form_page(
        self, request: HttpRequest, form: ToolsetForm, title: str, row: Toolset | None = None
    ) -> HttpResponse:
        scripts = Media(js=["mcp_app/entry_form.js", "mcp_app/toolset.js"])
        context = {
            **self.object_context(request, title, row),
            "form": form,
            "tabs": form.tabs(),
            "picker": form.picker(),
            "search_tokens": contents.search_tokens(),
            "seen": "" if row is None else row.revision,
            "back": self.page_url("changelist") if row is None else self.page_url("change", row),
            "button": "Save" if row is not None else "Add toolset",
        }
        context["media"] = context["media"] + form.media + scripts
        return TemplateResponse(request, "mcp_admin/toolset_form.html", context)

    # History and roll back.

    def may_roll_back(self, request: HttpRequest, entry: Any) -> bool:
        """Return True if the user may restore an earlier state, or with ``entry`` None a deleted toolset."""
        return request.user.has_perms(CHANGE if entry else ADD) and may_publish(request.user)

    def row_now(self, change: CatalogueChange) -> Toolset | None:
        """Return the toolset of a change, or None if it does not exist."""
        return Toolset.objects.filter(slug=change.key).first()

    def planned(self, change: CatalogueChange) -> RollBack:
        """Return the effect of rolling back to a change."""
        row, after = self.row_now(change), state_after(change)
        before = None if row is None else services.state_of(row)
        given = EntryChange(kind=Toolset, entry=None, values=after)
        revision = 0 if row is None else revisions.last_revision(_any(row))
        return RollBack(given, revision, before, after, ())

    def check_plan(self, plan: RollBack) -> None:
        """Do nothing, because the service checks the state when it is restored."""

    def rolled_back(self, **given: Any) -> Toolset:
        """Roll back, and return the toolset."""
        return services.roll_back(**given)

    def _is_present(self, change: CatalogueChange, entry: Any) -> bool:
        now = services.state_of(entry)
        return all(now.get(name) == value for name, value in state_after(change).items())


def who_can_use(row: Toolset) -> str:
    """Return the users who can use a toolset, in words."""
    if row.audience != Toolset.Audience.GROUPS:
        return str(row.get_audience_display())
    names = names_of(row.permissions)
    return f"members of {marked(' or '.join(names))}" if names else "no group"


def _contents(row: Toolset) -> contents.Contents:
    found: contents.Contents | None = vars(row).get("contents")
    return contents.contents_of(row) if found is None else found


def _any(row: Any) -> Any:
    return row
