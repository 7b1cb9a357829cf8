"""Owns the filter of lists by a state that no column holds; knows no model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest


class StateFilter(admin.SimpleListFilter):
    """Narrows a list to the rows in one state; ``states`` tells which rows those are now."""

    title = parameter_name = "state"
    states: ClassVar[Callable[[], dict[str, Q]]]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Every state."""
        return [(name, name) for name in type(self).states()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Only rows in the chosen state; all of them for a word that is none."""
        return queryset.filter(type(self).states().get(self.value() or "", Q()))
