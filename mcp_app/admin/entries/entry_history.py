"""The history of an entry, the list of deleted entries, and rollback to an earlier state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from mcp_app.admin.base import ModelAdmin
from mcp_app.admin.entries.differences import ShownDifference, faults, field_differences
from mcp_app.admin.entries.draft_card import State
from mcp_app.catalogue.changes import revisions, services, states
from mcp_app.catalogue.changes.rolling_back import (
    RollBack,
    entry_now,
    plan_roll_back,
    roll_back,
    state_after,
)
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.interface.text import marked
from mcp_app.models import CatalogueChange

Entry = Any
CHANGES_PER_PAGE = 25


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A change in a history.

    ``back_url`` is the address of the rollback to this change. It is "" if the rollback is impossible or the
    user may not roll back.
    """

    change: CatalogueChange
    fields: list[ShownDifference]
    is_present: bool
    back_url: str


class HistoryPages(ModelAdmin[Any]):
    """The part of an entry's pages about its history."""

    kind: ClassVar[str]

    def get_urls(self) -> list[URLPattern]:
        """Add the pages of changes.

        Their addresses contain ids of changes, because the entry may have been deleted.
        """
        base = f"{self.opts.app_label}_{self.opts.model_name}"
        view = self.admin_site.admin_view
        return [
            path("deleted/", view(self.deleted_view), name=f"{base}_deleted"),
            path("deleted/<int:change_id>/", view(self.past_view), name=f"{base}_past"),
            path("roll-back/<int:change_id>/", view(self.roll_back_view), name=f"{base}_roll_back"),
            *super().get_urls(),
        ]

    def may_roll_back(self, request: HttpRequest, entry: Entry | None) -> bool:
        """Return True if the user may restore an earlier state of the entry.

        If ``entry`` is None, return True if the user may restore a deleted entry.
        """
        may = self.has_change_permission(request, entry) if entry else self.has_add_permission(request)
        return may and services.may_publish(request.user)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """List the changes of an entry with their differences, newest first (S20)."""
        entry = self.object_to_view(request, object_id)
        if entry is None:
            return self.not_there(request, object_id)
        changes = revisions.history_of(self.kind, revisions.key_of(entry), entry.pk)
        more = {"entry_url": self.page_url("change", entry), **(extra_context or {})}
        return self._history(request, marked(entry), changes, entry, more)

    def past_view(self, request: HttpRequest, change_id: int) -> HttpResponse:
        """Show the history of a deleted entry. If the entry exists again, redirect to its history."""
        change = self._change(request, change_id)
        if (entry := self.row_now(change)) is not None:
            return HttpResponseRedirect(self.page_url("history", entry))
        changes = revisions.history_of(self.kind, change.key)
        return self._history(request, marked(change.key), changes, None, {})

    def _history(
        self,
        request: HttpRequest,
        name: str,
        changes: QuerySet[CatalogueChange],
        entry: Entry | None,
        more: dict[str, Any],
    ) -> HttpResponse:
        page = Paginator(changes.select_related("actor"), CHANGES_PER_PAGE).get_page(request.GET.get("p"))
        may = self.may_roll_back(request, entry)
        context = {
            **self.object_context(request, f"History of {name}", entry),
            "changes": [self._shown(change, entry, may=may) for change in page],
            "page": page,
            "deleted_url": reverse(self.url_name("deleted")),
            "is_gone": entry is None,
            "restores": entry is None and may,
            "name": name,
            **more,
        }
        return TemplateResponse(request, "mcp_admin/history.html", context)

    def _shown(self, change: CatalogueChange, entry: Entry | None, *, may: bool) -> HistoryChange:
        fields = field_differences(self.shown_state(change.before), self.shown_state(change.after))
        present = change.after is not None and entry is not None and self._is_present(change, entry)
        gone = change.after is None and entry is not None
        url = (
            reverse(self.url_name("roll_back"), args=[change.pk]) if may and not present and not gone else ""
        )
        return HistoryChange(change, fields, present, url)

    def _is_present(self, change: CatalogueChange, entry: Entry) -> bool:
        then = states.editable_part(self.model, source_of(entry), state_after(change))
        now = states.editable_part(self.model, source_of(entry), revisions.state_of(entry))
        return all(now[name] == value for name, value in then.items())

    def deleted_view(self, request: HttpRequest) -> HttpResponse:
        """List the deleted entries that have not been created again, the last deleted first."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        newest = CatalogueChange.objects.filter(kind=self.kind).values("key").annotate(last=Max("id"))
        gone = CatalogueChange.objects.filter(pk__in=newest.values("last"), after__isnull=True)
        page = Paginator(gone.select_related("actor"), CHANGES_PER_PAGE).get_page(request.GET.get("p"))
        rows = [(change, reverse(self.url_name("past"), args=[change.pk])) for change in page]
        context = {
            **self.object_context(request, f"Deleted {self.opts.verbose_name_plural}"),
            "rows": rows,
            "page": page,
        }
        return TemplateResponse(request, "mcp_admin/deleted.html", context)

    def roll_back_view(self, request: HttpRequest, change_id: int) -> HttpResponse:
        """Show a preview of a rollback (GET), or roll back (POST)."""
        change = self._change(request, change_id)
        now = self.row_now(change)
        if not self.may_roll_back(request, now):
            raise PermissionDenied
        problems: list[str] = []
        if request.method == "POST":
            try:
                entry = self._roll_back(request, change)
            except ValidationError as error:
                problems = faults(error)
            else:
                done = "Restored" if now is None else "Rolled back"
                text = f"{done}: {marked(revisions.key_of(entry))}. Clients are notified now."
                self.message_user(request, text, messages.SUCCESS)
                return HttpResponseRedirect(self.page_url("change", entry))
        return self._asked(request, change, problems)

    def _roll_back(self, request: HttpRequest, change: CatalogueChange) -> Entry:
        seen = request.POST.get("seen", "")
        return self.rolled_back(
            to=change,
            actor=request.user,
            why=request.POST.get("why", ""),
            seen=int(seen) if seen.isascii() and seen.isdigit() and len(seen) < 19 else None,
        )

    def _asked(self, request: HttpRequest, change: CatalogueChange, problems: list[str]) -> HttpResponse:
        plan: RollBack | None = None
        refused: list[str] = []
        try:
            plan = self.planned(change)
            self.check_plan(plan)
        except ValidationError as error:
            refused = faults(error)
        restores = plan is not None and plan.before is None
        context = {
            **self.object_context(request, f"{'Restore' if restores else 'Roll back'} {marked(change.key)}"),
            "change": change,
            "plan": plan,
            "restores": restores,
            "fields": self._differences(plan, change) if plan is not None else [],
            "effect": self.effect_of(plan.before, plan.after) if plan is not None else None,
            "refused": refused,
            "told": [] if refused else problems,
            "why": request.POST.get("why", ""),
            "back_url": reverse(self.url_name("past"), args=[change.pk]),
        }
        return TemplateResponse(request, "mcp_admin/roll_back.html", context)

    def _differences(self, plan: RollBack, change: CatalogueChange) -> list[ShownDifference]:
        before, after = self.shown_state(plan.before), self.shown_state(plan.after)
        return field_differences(before, after, getattr(self.row_now(change), "definition", None))

    # Rows other than entries have other services.

    def shown_state(self, state: State | None) -> State | None:
        """Convert a stored state for display."""
        return state

    def effect_of(self, before: State | None, after: State) -> Any:
        """Return the effect of a change that the differences of its fields do not show, or None."""
        return None

    def row_now(self, change: CatalogueChange) -> Entry | None:
        """Return the row of a change, or None if it does not exist."""
        return entry_now(change)

    def planned(self, change: CatalogueChange) -> RollBack:
        """Return the effect of rolling back to a change. Raises ValidationError if it is impossible."""
        return plan_roll_back(change)

    def check_plan(self, plan: RollBack) -> None:
        """Raise ValidationError if the state would be invalid now."""
        services.check_change(plan.change)

    def rolled_back(self, **given: Any) -> Entry:
        """Roll back, and return the row. The arguments are those of ``roll_back``."""
        return roll_back(**given)

    def _change(self, request: HttpRequest, change_id: int) -> CatalogueChange:
        if not self.has_view_permission(request):
            raise PermissionDenied
        changes = CatalogueChange.objects.filter(kind=self.kind)
        if change_id >= 2**63:
            raise Http404
        return get_object_or_404(changes, pk=change_id)
