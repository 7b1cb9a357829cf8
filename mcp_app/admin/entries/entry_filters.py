"""List filters of catalogue entries."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest

from mcp_app.catalogue.sources.preset.source import PRESET


class YesNoFilter(admin.SimpleListFilter):
    """A list filter with the choices "yes" and "no". Subclasses define which rows match "yes"."""

    yes, no = "yes", "no"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("yes", self.yes), ("no", self.no)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() == "yes":
            return self.matching(queryset)
        if self.value() == "no":
            return queryset.exclude(pk__in=self.matching(queryset).values("pk"))
        return queryset

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows that match "yes"."""
        raise TypeError(f"{type(self).__name__} must say which rows match")


class RestrictedFilter(YesNoFilter):
    """List filter: entries that require a permission."""

    title, parameter_name = "permission", "restricted"
    yes, no = "needs a permission", "open to every caller"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return entries with a permission."""
        return queryset.exclude(permission="")


class DriftFilter(YesNoFilter):
    """List filter: entries whose definition has changed since the last review."""

    title, parameter_name = "drift", "drift"
    yes, no = "changed at its source since reviewed", "as reviewed"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return entries whose definition has changed since the last review."""
        return queryset.exclude(reviewed_hash="").exclude(reviewed_hash=F("definition_hash"))


class MissingFilter(YesNoFilter):
    """List filter: entries that are missing from their source."""

    title, parameter_name = "definition", "missing"
    yes, no = "missing", "present"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return missing entries."""
        return queryset.filter(missing=True)


class DraftFilter(YesNoFilter):
    """List filter: entries with a pending draft."""

    title, parameter_name = "draft", "draft"
    yes, no = "has a draft", "has no draft"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return entries that have a draft. The list must annotate its entries with ``has_draft``."""
        return queryset.filter(has_draft=True)


class PresetFilter(YesNoFilter):
    """List filter: tools that are presets of another tool."""

    title, parameter_name = "preset", "preset"
    yes, no = "presets", "tools of their own"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return presets."""
        return queryset.filter(PRESET.rows())
