"""Filters of admin lists, a restriction of their lookups, and what the pages of all models share.

By default, Django accepts any lookup on a model's own fields. Lookups on a redacted field would reveal its
value letter by letter, and on SQLite, regular expressions run in the web process. The classes do not depend
on any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, Final

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IS_POPUP_VAR
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import url_params_from_lookup_dict
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.text import capfirst

from mcp_app.interface.text import marked

# Names of rows of libraries, as on our pages.
OUR_NAMES: Final = {"authenticator": "second factor", "authenticators": "second factors"}


class StateFilter(admin.SimpleListFilter):
    """A list filter by state. ``states`` returns a map of the states to their current query conditions."""

    title, parameter_name = "status", "state"
    states: ClassVar[Callable[[], dict[str, Q]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in type(self).states()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Filter by the chosen state. Ignore unknown values."""
        return queryset.filter(type(self).states().get(self.value() or "", Q()))


def by_date(title: str) -> type[admin.DateFieldListFilter]:
    """Return a list filter by date with another title than the name of its field."""

    class Filter(admin.DateFieldListFilter):
        """A list filter by date."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.title = title

    return Filter


class ListedLookups:
    """Mixin of an admin whose list rejects every lookup that is not in ``list_filter``."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return a variant of the list class that rejects other lookups."""
        return _closed(super().get_changelist(request, **kwargs))  # type: ignore[misc]  # A mixin.


class _Closed(ChangeList):
    """A list that rejects lookups in the query string unless a filter uses them."""

    def get_results(self, request: HttpRequest) -> None:
        """Count the rows of the page.

        Without a search or a filter, the count is also the number of all rows. Django's link "Show all" is
        then left out.
        """
        super().get_results(request)
        if self.full_result_count is None and not (self.query or self.get_filters_params()):
            self.full_result_count = self.result_count

    def get_filters(self, request: HttpRequest) -> Any:
        """Return the filters.

        Raises DisallowedModelAdminLookup for a parameter that no filter uses.
        """
        found = super().get_filters(request)
        for name in found[2]:
            if not all((name, value) in _limits(self.model) for value in self.filter_params[name]):
                raise DisallowedModelAdminLookup(f"Filtering by {name} not allowed")
        return found


@cache
def _closed(kind: type[ChangeList]) -> type[ChangeList]:
    return type(f"Closed{kind.__name__}", (_Closed, kind), {})


def _limits(model: type[Model]) -> Iterator[tuple[str, str]]:
    """Yield the parameters that popups may use: ``limit_choices_to`` of foreign keys to ``model``."""
    options: Any = model._meta
    for limit in options.related_fkey_lookups:
        yield from url_params_from_lookup_dict(limit() if callable(limit) else limit).items()


def trail_url(kind: str = "", key: str = "") -> str:
    """Return the address of the audit trail, or of its events about one object."""
    url = reverse("admin:mcp_app_auditevent_changelist")
    return f"{url}?{urlencode({'object': f'{kind}:{key}'})}" if key else url


class NamedList:
    """A mixin for admin pages whose list has the name of its rows as title."""

    opts: Any
    object_history_template: Any = "mcp_admin/object_history.html"
    delete_confirmation_template: ClassVar[Any] = "mcp_admin/delete.html"
    delete_selected_confirmation_template: Any = (
        None if apps.is_installed("unfold") else "mcp_admin/delete_selected.html"
    )
    empty_value_display: Any = "–"
    # The kind of the rows in the audit trail, if the trail names their changes.
    audit_kind: ClassVar[str] = ""

    def audit_key(self, row: Any) -> str:
        """Return the name of a row in the audit trail."""
        return str(row)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Title the list. Windows that select a row keep Django's title."""
        named = {} if IS_POPUP_VAR in request.GET else {"title": capfirst(self.opts.verbose_name_plural)}
        listed: Any = super()
        return listed.changelist_view(request, {**named, **(extra_context or {})})  # type: ignore[no-any-return]

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Link the audit trail, because Django's history has only changes made with its forms.

        The title is that of the histories of entries. Django's is "Change history: …".
        """
        trail = apps.get_model("mcp_app", "AuditEvent")
        looks = admin.site.get_model_admin(trail).has_view_permission(request)
        shown: Any = super()
        row = shown.get_object(request, unquote(object_id)) if looks and self.audit_kind else None
        about = {"trail_url": trail_url(self.audit_kind, self.audit_key(row) if row else "") if looks else ""}
        response: HttpResponse = shown.history_view(request, object_id, {**about, **(extra_context or {})})
        if isinstance(response, TemplateResponse) and response.context_data:
            response.context_data["title"] = f"History of {marked(response.context_data['object'])}"
        return response

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        """Name the row in the title. Django's title is "Delete"."""
        context["title"] = f"Delete {marked(context['object'])}"
        deleting: Any = super()
        return deleting.render_delete_form(request, context)  # type: ignore[no-any-return]

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Leave out the rows between two models, which have no names. The summary still counts them.

        Rows of libraries are named as on our pages.
        """
        deleting: Any = super()
        nested, counts, *others = deleting.get_deleted_objects(objs, request)
        counts = {OUR_NAMES.get(str(name), name): number for name, number in counts.items()}
        return (_without_relationships(nested), counts, *others)


def _without_relationships(nested: list[Any]) -> list[Any]:
    named = [
        _without_relationships(each) if isinstance(each, list) else _in_our_words(each) for each in nested
    ]
    return [each for each in named if each != [] and not _is_relationship(each)]


def _in_our_words(line: Any) -> Any:
    """Replace a library's name for the kind of a row. Lines of registered models are HTML and stay."""
    kind, colon, name = str(line).partition(": ")
    ours = OUR_NAMES.get(kind.lower())
    return f"{capfirst(ours)}{colon}{name}" if ours and colon else line


def _is_relationship(line: Any) -> bool:
    """Return True for a line such as ``Group-permission relationship: …``, which no row's name can fake."""
    return isinstance(line, str) and line.partition(": ")[0].endswith(" relationship")
