"""The admin pages of limits."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from mcp_app.admin.base import RowPageAdmin, object_button
from mcp_app.admin.callers import limit_words
from mcp_app.admin.callers import limits as tables
from mcp_app.admin.limits.forms import LimitForm
from mcp_app.admin.markup import badge
from mcp_app.auth.permissions import PermissionMissing
from mcp_app.catalogue.snapshots.current_snapshot import loaded
from mcp_app.catalogue.snapshots.limit_rules import all_rules
from mcp_app.database import clock
from mcp_app.interface.text import marked
from mcp_app.limits import current, preview, report, services
from mcp_app.limits.notation import amounts_text, exempt_text
from mcp_app.limits.subjects import without_effect
from mcp_app.models import LimitRule

ADD = ("mcp_app.view_limitrule", "mcp_app.add_limitrule")
CHANGE = ("mcp_app.view_limitrule", "mcp_app.change_limitrule")
REMOVE = ("mcp_app.view_limitrule", "mcp_app.delete_limitrule")
RESET = ("mcp_app.view_limitrule", "mcp_app.reset_limit")
# The views of one limit that its page leads to.
VIEWS = ("settings", "reset", "remove", "row_parts")
TONES = {"enforced": "good", "only counted": "info", "disabled": "plain"}


def state_of(row: LimitRule) -> str:
    """Return the state of a limit."""
    if not row.enabled:
        return "disabled"
    return "only counted" if row.mode == LimitRule.Mode.OBSERVE else "enforced"


def shown_state(row: LimitRule, problem: str) -> SafeString:
    """Return the state of a limit as a badge. ``problem`` is the reason why it limits no call, or ""."""
    if row.enabled and problem:
        return badge("no effect", "warn")
    return badge(state_of(row), TONES[state_of(row)])


@admin.register(LimitRule)
class LimitAdmin(RowPageAdmin[LimitRule]):
    """Admin pages of limits."""

    change_list_template = "mcp_admin/limits.html"
    list_display = ("name", "callers", "tools", "amounts", "state")
    list_display_links = ("name",)
    list_filter = ("who", "what", "mode")
    list_select_related = ("user", "group")
    search_fields = (
        "name",
        "who_value",
        f"user__{get_user_model().USERNAME_FIELD}",
        "group__name",
        "what_value",
    )
    search_help_text = "Name, caller or tool"
    actions = None

    @admin.display(description="callers", ordering="who")
    def callers(self, row: LimitRule) -> str:
        """Return the callers of a limit."""
        more = f", {len(row.exempt)} exempt" if row.exempt else ""
        return marked(vars(row)["callers_text"]) + more

    @admin.display(description="tools", ordering="what")
    def tools(self, row: LimitRule) -> str:
        """Return the tools of a limit."""
        return marked(limit_words.tools(row))

    @admin.display(description="allowed")
    def amounts(self, row: LimitRule) -> str:
        """Return the amounts of a limit."""
        return amounts_text(row)

    @admin.display(description="status")
    def state(self, row: LimitRule) -> SafeString:
        """Return the state of a limit as a badge."""
        return shown_state(row, vars(row).get("problem", ""))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Attach the words for callers, and the reasons why limits have no effect, found together."""
        changelist: Any = super().get_changelist_instance(request)
        rows = list(changelist.result_list)
        reasons = without_effect(rows)
        for row, words in zip(rows, limit_words.callers(rows), strict=True):
            vars(row).update(problem=reasons.get(row.pk, ""), callers_text=words)
        changelist.result_list = rows
        return changelist

    def has_reset_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may set what is used of a limit to zero."""
        return request.user.has_perms(RESET)

    def has_remove_permission(self, request: HttpRequest) -> bool:
        """Return True if the user may delete a limit."""
        return request.user.has_perms(REMOVE)

    def get_urls(self) -> list[URLPattern]:
        view, name = self.admin_site.admin_view, "mcp_app_limitrule"
        return [
            path("live/", view(self.live_view), name=f"{name}_parts"),
            path("<path:object_id>/live/", view(self.live_row_view), name=f"{name}_row_parts"),
            path("<path:object_id>/settings/", view(self.settings_view), name=f"{name}_settings"),
            *super().get_urls(),
        ]

    @property
    def media(self) -> Media:
        """Scripts of the base class, and the one that fetches what is used again."""
        return super().media + Media(js=["mcp_app/dashboard.js"])

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list, with a button to add a limit and the callers that were refused lately."""
        address = self.page_url("add") if request.user.has_perms(ADD) else ""
        live: dict[str, Any] = {}
        if self.has_view_permission(request):
            live = {
                **self._live_context(),
                "tool_limits": tables.of_tools(is_linked=request.user.has_perm("mcp_app.view_tool")),
            }
        return super().changelist_view(request, {"add_url": address, **live, **(extra_context or {})})

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """Return what is used of limits, and who was refused lately, for a script of the list."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        response = TemplateResponse(request, "mcp_admin/limits_live.html", self._live_context())
        response.headers["Cache-Control"] = "no-store"
        return response

    def live_row_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return what is used of one limit, for a script of its page."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        response = TemplateResponse(request, "mcp_admin/limit_live.html", self._row_context(request, row))
        response.headers["Cache-Control"] = "no-store"
        return response

    def _row_context(self, request: HttpRequest, row: LimitRule) -> dict[str, Any]:
        return {
            "fills": tables.usage(report.of_rule(current.rule_of(row))),
            "at": clock.utcnow(),
            "may_reset": self.has_reset_permission(request),
        }

    def _live_context(self) -> dict[str, Any]:
        return {
            "live_url": self.page_url("parts"),
            "used": tables.used_now(),
            "refused": tables.refused_lately(),
            "at": clock.utcnow(),
        }

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Show the form of a new limit (GET), or store or preview it (POST)."""
        if not request.user.has_perms(ADD):
            raise PermissionMissing(*ADD)
        return self._form_page(request, LimitForm(request), "Add limit")

    def settings_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the settings of a limit (GET), or store or preview them (POST)."""
        row = self.object_to_view(request, object_id)
        if row is None:
            return self.not_there(request, object_id)
        if not request.user.has_perms(CHANGE):
            raise PermissionMissing(*CHANGE)
        return self._form_page(request, LimitForm(request, row), f"Edit {marked(row)}", row)

    def row_page(self, request: HttpRequest, row: LimitRule) -> HttpResponse:
        """Show what is used of a limit, and the other limits that hold for its calls."""
        rule = current.rule_of(row)
        problem = without_effect([row]).get(row.pk, "")
        context = {
            **self.object_context(request, f"Limit {marked(row)}", row),
            "row": row,
            "who": limit_words.callers([row])[0],
            "exempt": exempt_text(row),
            "what": limit_words.tools(row),
            "amounts": amounts_text(row),
            "state": shown_state(row, problem),
            **self._row_context(request, row),
            "holding": tables.holding(rule, all_rules()),
            "problem": problem,
            "may_change": request.user.has_perms(CHANGE),
            "may_remove": self.has_remove_permission(request),
            "addresses": {name: self.page_url(name, row) for name in VIEWS},
        }
        response = TemplateResponse(request, "mcp_admin/limit.html", context)
        response.headers["Cache-Control"] = "no-store"
        return response

    @object_button("reset", "reset")
    def reset(self, request: HttpRequest, row: LimitRule) -> HttpResponse:
        """Set what is used of a limit to zero, for one subject or for all."""
        subject = request.POST.get("subject", "")[:160]
        services.reset_rule(rule=row, actor=request.user, subject=subject)
        self.message_user(request, f"Reset {marked(subject or row)}.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("change", row))

    @object_button("remove", "remove")
    def remove(self, request: HttpRequest, row: LimitRule) -> HttpResponse:
        """Delete a limit."""
        services.delete_rule(rule=row, actor=request.user)
        self.message_user(request, f"Deleted {marked(row)}.", messages.SUCCESS)
        return HttpResponseRedirect(self.page_url("changelist"))

    def _form_page(
        self, request: HttpRequest, form: LimitForm, title: str, row: LimitRule | None = None
    ) -> HttpResponse:
        shown: dict[str, Any] = {}
        if request.method == "POST" and "preview" in request.POST:
            if (draft := form.draft()) is not None:
                shown = self._previewed(draft)
        elif request.method == "POST" and (saved := form.stored()) is not None:
            self.message_user(request, "Saved. Every process applies it within seconds.", messages.SUCCESS)
            return HttpResponseRedirect(self.page_url("change", saved))
        back = self.page_url("changelist") if row is None else self.page_url("change", row)
        context = {**self.object_context(request, title, row), "form": form, "back": back, **shown}
        context["media"] = context["media"] + Media(js=["mcp_app/limit_form.js"])
        return TemplateResponse(request, "mcp_admin/limit_form.html", context)

    def _previewed(self, draft: LimitRule) -> dict[str, Any]:
        rule = current.rule_of(draft)
        found = preview.of_rule(rule, loaded().tools)
        names = tables.names_of(subject for subject, _ in found.subjects)
        return {
            "preview": found,
            "subjects": [(names[subject], number) for subject, number in found.subjects],
            "holding": tables.holding(rule, all_rules()),
        }
