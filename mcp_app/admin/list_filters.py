"""The filters of admin lists: by a state that no column holds, and closed to any lookup that is not listed.

Django accepts any lookup on a model's own fields. One on a redacted field would reveal its value letter by
letter, and a regular expression runs in the web process where the database is SQLite. Knows no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import url_params_from_lookup_dict
from django.db.models import Model, Q, QuerySet
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


class ListedLookups:
    """An admin whose list refuses every lookup that none of its ``list_filter`` reads."""

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the closed variant of the skin's list."""
        return _closed(super().get_changelist(request, **kwargs))  # type: ignore[misc]  # A mixin.


class _Closed(ChangeList):
    """A list without lookups of the browser's own."""

    def get_filters(self, request: HttpRequest) -> Any:
        """Return the filters. Raises DisallowedModelAdminLookup for a parameter that none of them took."""
        found = super().get_filters(request)
        for name in found[2]:
            if not all((name, value) in _limits(self.model) for value in self.filter_params[name]):
                raise DisallowedModelAdminLookup(f"Filtering by {name} not allowed")
        return found


@cache
def _closed(kind: type[ChangeList]) -> type[ChangeList]:
    return type(f"Closed{kind.__name__}", (_Closed, kind), {})


def _limits(model: type[Model]) -> Iterator[tuple[str, str]]:
    """Yield the parameters of popups: the ``limit_choices_to`` of foreign keys to ``model``."""
    options: Any = model._meta
    for limit in options.related_fkey_lookups:
        yield from url_params_from_lookup_dict(limit() if callable(limit) else limit).items()
