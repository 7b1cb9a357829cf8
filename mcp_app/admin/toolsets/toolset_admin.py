"""The admin pages of toolsets."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.columns import text_column, time_column
from mcp_app.admin.entries.draft_card import State, card_of
from mcp_app.admin.entries.entry_drafts import draft_button, draft_in_address
from mcp_app.admin.entries.entry_history import HistoryPages
from mcp_app.admin.markup import badge
from mcp_app.admin.toolsets.forms import ToolsetForm, readable_state, rule_line
from mcp_app.admin.toolsets.token_page import tables
from mcp_app.auth.permissions import PermissionMissing, may_view_people
from mcp_app.catalogue.access import holder_of, toolset_decision
from mcp_app.catalogue.changes import pending_drafts, revisions
from mcp_app.catalogue.changes.rolling_back import RollBack, state_after
from mcp_app.catalogue.changes.services import PUBLISH, EntryChange, may_publish
from mcp_app.catalogue.search import misses
from mcp_app.catalogue.snapshots.toolsets import path_of
from mcp_app.catalogue.toolsets import contents, services
from mcp_app.catalogue.toolsets.checks import sound
from mcp_app.catalogue.toolsets.drafts import check_toolset_draft, drafted, publish_toolset_draft
from mcp_app.catalogue.toolsets.groups import names_of
from mcp_app.catalogue.toolsets.meter import estimates
from mcp_app.connect.address import address_for
from mcp_app.interface.links import may_view
from mcp_app.interface.text import marked
from mcp_app.models import CatalogueChange, Draft, Toolset
from mcp_app.protocol.messages.server import ENDPOINT

VIEW = "mcp_app.view_toolset"
# Without the permission to publish, users can save drafts only.
ADD = (VIEW, "mcp_app.add_toolset")
CHANGE = (VIEW, "mcp_app.change_toolset")
DELETE = (VIEW, "mcp_app.delete_toolset", PUBLISH)


MESSAGES = "mcp_app.view_message"


@admin.register(Toolset)
class ToolsetAdmin(HistoryPages, RowPageAdmin[Toolset]):
    """Admin pages of toolsets. Changes are written by ``catalogue/toolsets/services.py``."""

    kind = Toolset.KIND
    change_list_template = "mcp_admin/toolsets.html"
    list_display = ("slug", "title_shown", "who", "entries", "tokens", "status", "updated")
    list_display_links = ("slug",)
    search_fields = ("slug", "title")
    search_help_text = "Name or title"
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

    @admin.display(description="status")
    def status(self, row: Toolset) -> SafeString:
        """Return badges for the states of the toolset."""
        state = badge("enabled", "good") if row.enabled else badge("disabled", "plain")
        default = badge(ENDPOINT, "info") if row.is_default else ""
        draft = badge("draft", "warn") if vars(row).get("has_draft") else ""
        return format_html("{} {} {}", state, default, draft)

    def get_urls(self) -> list[URLPattern]:
        edit = self.admin_site.admin_view(self.edit_view)
        tokens = self.admin_site.admin_view(self.tokens_view)
        return [
            path("tokens/", tokens, name="mcp_app_toolset_tokens"),
            path("<path:object_id>/edit/", edit, name="mcp_app_toolset_edit"),
            *super().get_urls(),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with a button to add a toolset."""
        address = self.page_url("add") if request.user.has_perms(ADD) else ""
        pages = {f"{name}_url": self.page_url(name) for name in ("deleted", "tokens")}
        more = {"add_url": address, **pages}
        return super().changelist_view(request, {**more, **(extra_context or {})})

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return a toolset. Pages also show a damaged one, so that it can be repaired."""
        row = super().get_object(request, object_id, from_field)
        return row if row is None else sound(row)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the entries of each toolset, and if it has a draft. They are found together."""
        changelist: Any = super().get_changelist_instance(request)
        rows = [sound(row) for row in changelist.result_list]
        drafts = Draft.objects.filter(kind=Toolset.KIND, entry_id__in=[row.pk for row in rows])
        drafted_rows = set(drafts.values_list("entry_id", flat=True))
        for row, found in zip(rows, contents.contents_of_each(rows), strict=True):
            vars(row).update(contents=found, has_draft=row.pk in drafted_rows)
        changelist.result_list = rows
        return changelist

    def tokens_view(self, request: HttpRequest) -> HttpResponse:
        """Compare the lists of all addresses and groups: their tokens, and the tools that were called."""
        if not self.has_view_permission(request):
            raise PermissionMissing(VIEW)
        context = {
            **self.object_context(request, "Token costs"),
            "tables": tables(request),
            "days": contents.UNUSED_DAYS,
        }
        return TemplateResponse(request, "mcp_admin/tokens.html", context)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Show the form of a new toolset (GET), or store it (POST)."""
        if not request.user.has_perms(ADD):
            raise PermissionMissing(*ADD)
        draft = draft_in_address(request, Toolset.KIND, None)
        form = ToolsetForm(request, draft=draft)
        if "_draft" in request.POST:
            if (saved := form.saved_draft()) is not None:
                return self._to_draft(request, saved)
        elif request.method == "POST" and (row := form.stored()) is not None:
            self.message_user(request, f"Added {marked(row)}. Clients can use it now.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, "Add toolset", draft=draft)

    def edit_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the form of a toolset (GET), or change it (POST)."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        if not request.user.has_perms(CHANGE):
            raise PermissionMissing(*CHANGE)
        draft = draft_in_address(request, Toolset.KIND, row)
        if "without" in request.GET and draft is None:
            draft = pending_drafts.draft_of(_any(row))
        form = ToolsetForm(request, row, draft, self._without(request, row, draft))
        if "_draft" in request.POST:
            if (saved := form.saved_draft()) is not None:
                return self._to_draft(request, saved)
        elif request.method == "POST" and form.stored() is not None:
            self.message_user(request, "Saved. Clients are notified now.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", row))
        return self._form_page(request, form, f"Edit {marked(row)}", row, draft)

    def _without(self, request: HttpRequest, row: Toolset, draft: Draft | None) -> list[str]:
        """Return the members that the address asks to leave out: ``?without=unused``."""
        if request.GET.get("without") != "unused" or not request.user.has_perm(MESSAGES):
            return []
        shown = row if draft is None else drafted(draft)
        return [each.identity for each in contents.unused_in(contents.contents_of(shown)).tools]

    def _to_draft(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        text = f"Draft of {marked(draft.key)} saved. Clients do not see it until it is published."
        self.message_user(request, text, messages.SUCCESS)
        return HttpResponseRedirect(reverse(f"{self.admin_site.name}:mcp_app_draft_change", args=[draft.pk]))

    def row_page(self, request: HttpRequest, row: Toolset) -> HttpResponse:
        """Show the entries of a toolset, their cost, and who can use it."""
        found, may_read = contents.contents_of(row), request.user.has_perm(MESSAGES)
        draft = pending_drafts.draft_of(_any(row))
        context = {
            **self.object_context(request, f"Toolset {marked(row)}", row),
            "row": row,
            "card": None if draft is None else card_of(request, draft, row),
            "unused_url": f"{self.page_url('edit', row)}?without=unused",
            "address": address_for(request, path_of(row.slug)),
            "who": who_can_use(row),
            "rules": [rule_line(rule) for rule in row.rules],
            "contents": found,
            "entries": _linked(request.user, found.members),
            "families": estimates(found.tokens),
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
        self,
        request: HttpRequest,
        form: ToolsetForm,
        title: str,
        row: Toolset | None = None,
        draft: Draft | None = None,
    ) -> HttpResponse:
        waits = draft or (None if row is None else pending_drafts.draft_of(_any(row)))
        back = self.page_url("changelist") if row is None else self.page_url("change", row)
        if draft is not None and row is None:
            back = reverse(f"{self.admin_site.name}:mcp_app_draft_change", args=[draft.pk])
        scripts = Media(js=["mcp_app/entry_form.js", "mcp_app/toolset.js"])
        context = {
            **self.object_context(request, title, row),
            "form": form,
            "tabs": form.tabs(),
            "address": "" if row is None else address_for(request, path_of(row.slug)),
            "group_url": _group_form(request.user),
            "picker": form.picker(),
            "search_tokens": contents.search_tokens(),
            "seen": "" if row is None else row.revision,
            "back": back,
            "button": "" if draft or not may_publish(request.user) else "Save" if row else "Add toolset",
            "draft_button": draft_button(request, waits, draft),
            "draft": draft,
            "waits": waits,
            "token": "" if waits is None else f"{waits.pk}:{waits.version}",
            "why": request.POST.get("why", draft.note if draft is not None else ""),
        }
        context["media"] = context["media"] + form.media + scripts
        return TemplateResponse(request, "mcp_admin/toolset_form.html", context)

    # Drafts, which ``catalogue/toolsets/drafts.py`` writes.

    def may_draft(self, request: HttpRequest, row: Toolset | None) -> bool:
        """Return True if the user may save drafts of the toolset, or of new toolsets if ``row`` is None."""
        return bool(request.user.has_perms(CHANGE if row else ADD))

    def draft_form_url(self, draft: Draft | None, row: Toolset | None) -> str:
        """Return the address of the form that edits a draft, without the draft."""
        return self.page_url("add") if row is None else self.page_url("edit", row)

    def draft_states(self, draft: Draft, row: Toolset | None) -> tuple[State | None, State | None]:
        """Return the toolset's state without the draft (None for a new toolset) and with the draft."""
        before = None if row is None else services.state_of(row)
        return self.shown_state(before), self.shown_state(services.state_of(drafted(draft)))

    def draft_effect(self, draft: Draft, row: Toolset | None) -> contents.Effect:
        """Return the members that publishing would add and remove, and the tokens before and after it."""
        return contents.effect_of(row, drafted(draft))

    def check_draft(self, draft: Draft) -> None:
        """Raise the ValidationError that publishing this draft would raise."""
        check_toolset_draft(draft)

    def publish_draft(self, **given: Any) -> Toolset:
        """Publish a draft, and return the toolset."""
        return publish_toolset_draft(**given)

    # History and roll back.

    def shown_state(self, state: State | None) -> State | None:
        """Convert a stored state for display: a line for each member and rule, and groups by name."""
        return None if state is None else readable_state(services.state_of(services.of_state(state)))

    def effect_of(self, before: State | None, after: State) -> contents.Effect:
        """Return the members and tokens that a roll back changes."""
        old = None if before is None else services.of_state(before)
        return contents.effect_of(old, services.of_state(after))

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


def _group_form(user: Any) -> str:
    """Return the address of the form for a new group, or "" if the user may not add groups."""
    if not (admin.site.is_registered(Group) and user.has_perm("auth.add_group")):
        return ""
    return reverse(f"{admin.site.name}:auth_group_add")


def _linked(user: Any, members: Collection[contents.Member]) -> list[tuple[contents.Member, str]]:
    """Return the members with the addresses of their pages, or "" for pages that the user may not view."""
    pages: dict[tuple[str, str], str] = {}
    for kind in {each.kind for each in members}:
        model = pending_drafts.KIND_NAMED[kind]
        if not may_view(user, model._meta.label_lower):
            continue
        named = model._default_manager.filter(**{f"{model.KEY}__in": [each.key for each in members]})
        for key, pk in named.values_list(model.KEY, "pk"):
            view = f"{admin.site.name}:mcp_app_{model._meta.model_name}_change"
            pages[kind, key] = reverse(view, args=[pk])
    return [(each, pages.get((each.kind, each.key), "")) for each in members]


def _contents(row: Toolset) -> contents.Contents:
    found: contents.Contents | None = vars(row).get("contents")
    return contents.contents_of(row) if found is None else found


def _any(row: Any) -> Any:
    return row
