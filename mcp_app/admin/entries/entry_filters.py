"""List filters of catalogue entries. They offer only choices that match at least one entry."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Count, F, Q, QuerySet
from django.http import HttpRequest

from mcp_app.catalogue.sources.lookup import present, rows_stored_as
from mcp_app.catalogue.sources.preset.source import PRESET
from mcp_app.catalogue.sources.tagged import Facets, facets_of


class SourceFilter(admin.SimpleListFilter):
    """A list filter by source. It offers the sources of stored entries."""

    title, parameter_name = "source", "source__exact"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        found = present(model_admin.model, _facets(request, model_admin).stored)
        return found if len(found) > 1 or self.value() else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        stored = self.value()
        return queryset.filter(rows_stored_as(stored)) if stored else queryset


class TagFilter(admin.SimpleListFilter):
    """A list filter by tag. It offers the tags of stored entries, from code and from administrators."""

    title, parameter_name = "tag", "tag"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        self._tags = _facets(request, model_admin).tags
        return [(tag, tag) for tag in sorted({tag for tags in self._tags.values() for tag in tags})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        found = [pk for pk, tags in self._tags.items() if chosen in tags]
        return queryset.filter(pk__in=found) if chosen else queryset


def _facets(request: HttpRequest, model_admin: Any) -> Facets:
    """Return the tags and sources of all entries. One query reads them for both filters."""
    found: Facets | None = getattr(request, "_mcp_facets", None)
    if found is None:
        found = facets_of(model_admin.model)
        setattr(request, "_mcp_facets", found)  # noqa: B010  # Not an attribute of HttpRequest.
    return found


class YesNoFilter(admin.SimpleListFilter):
    """A list filter with the choices "yes" and "no".

    Subclasses define ``matching``, the condition of rows that match "yes". If all rows match the same choice,
    the filter is not shown.
    """

    yes, no = "yes", "no"
    values: ClassVar[tuple[str, str]] = ("yes", "no")
    matching: ClassVar[Q]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        choices = list(zip(self.values, (self.yes, self.no), strict=True))
        if self.value():
            return choices
        matching, rows = _counts(request, model_admin)
        return choices if 0 < matching[type(self)] < rows else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        yes, no = self.values
        if self.value() == yes:
            return queryset.filter(self.matching)
        return queryset.exclude(self.matching) if self.value() == no else queryset


def _counts(request: HttpRequest, model_admin: Any) -> tuple[dict[type[YesNoFilter], int], int]:
    """Return the number of rows for each filter, and of all rows. One query counts for all filters."""
    found = getattr(request, "_mcp_counted_filters", None)
    if found is None:
        shown = model_admin.get_list_filter(request)
        filters = [each for each in shown if isinstance(each, type) and issubclass(each, YesNoFilter)]
        counts = {f"filter{index}": Count("pk", filter=each.matching) for index, each in enumerate(filters)}
        row = model_admin.get_queryset(request).order_by().aggregate(rows=Count("pk"), **counts)
        matching = {each: row[f"filter{index}"] for index, each in enumerate(filters)}
        found = matching, row["rows"]
        setattr(request, "_mcp_counted_filters", found)  # noqa: B010  # Not an attribute of HttpRequest.
    return found


class EnabledFilter(YesNoFilter):
    """List filter: enabled entries."""

    title, parameter_name = "status", "enabled__exact"
    yes, no = "enabled", "disabled"
    values = ("1", "0")
    matching = Q(enabled=True)


class RestrictedFilter(YesNoFilter):
    """List filter: entries that require a permission."""

    title, parameter_name = "who can use it", "restricted"
    yes, no = "restricted", "everyone"
    matching = ~Q(permission="")


class DriftFilter(YesNoFilter):
    """List filter: entries whose definition has changed since it was accepted."""

    title, parameter_name = "acceptance", "drift"
    yes, no = "changed, not accepted", "nothing to accept"
    matching = ~Q(reviewed_hash="") & ~Q(reviewed_hash=F("definition_hash"))


class MissingFilter(YesNoFilter):
    """List filter: entries that are missing from their source."""

    title, parameter_name = "definition", "missing"
    yes, no = "missing", "present"
    matching = Q(missing=True)


class DraftFilter(YesNoFilter):
    """List filter: entries with a pending draft. The list must annotate its entries with ``has_draft``."""

    title, parameter_name = "draft", "draft"
    yes, no = "has a draft", "has no draft"
    matching = Q(has_draft=True)


class PresetFilter(YesNoFilter):
    """List filter: tools that are presets of another tool."""

    title, parameter_name = "preset", "preset"
    yes, no = "presets", "other tools"
    matching = PRESET.rows()
