"""Owns the list filters of catalogue entries."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import F, QuerySet
from django.http import HttpRequest

from mcp_app.catalogue.sources.preset.source import PRESET


class YesNoFilter(admin.SimpleListFilter):
    """A question with two answers; subclasses say which rows mean yes."""

    yes, no = "yes", "no"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The two answers."""
        return [("yes", self.yes), ("no", self.no)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Only the rows of the chosen answer."""
        if self.value() == "yes":
            return self.matching(queryset)
        if self.value() == "no":
            return queryset.exclude(pk__in=self.matching(queryset).values("pk"))
        return queryset

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """The rows for which the answer is yes."""
        raise TypeError(f"{type(self).__name__} must say which rows match")


class RestrictedFilter(YesNoFilter):
    """Whether callers need a permission."""

    title, parameter_name = "permission", "restricted"
    yes, no = "needs a permission", "open to every caller"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Entries with a permission set."""
        return queryset.exclude(permission="")


class DriftFilter(YesNoFilter):
    """Whether code changed a definition since it was last reviewed."""

    title, parameter_name = "drift", "drift"
    yes, no = "changed by code since reviewed", "as reviewed"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Entries that drifted."""
        return queryset.exclude(reviewed_hash="").exclude(reviewed_hash=F("definition_hash"))


class MissingFilter(YesNoFilter):
    """Whether the code behind an entry is gone."""

    title, parameter_name = "code", "missing"
    yes, no = "no longer installed", "installed"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Entries whose code is gone."""
        return queryset.filter(missing=True)


class DraftFilter(YesNoFilter):
    """Whether a draft waits to be published."""

    title, parameter_name = "draft", "draft"
    yes, no = "has a draft", "has no draft"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Entries with a draft; the list knows which those are."""
        return queryset.filter(has_draft=True)


class PresetFilter(YesNoFilter):
    """Whether a tool is a preset of another."""

    title, parameter_name = "preset", "preset"
    yes, no = "presets", "tools of their own"

    def matching(self, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Presets."""
        return queryset.filter(PRESET.rows())
