"""Owns lists of rows that may be very many: pages and search are bounded, whatever the table holds."""

from __future__ import annotations

from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import Min, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from mcp_app.admin.base import M, RowPageAdmin

# How many rows a list has pages for, and how many of the newest ones are searched.
MOST_LISTED: Final = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the list has pages: counting everything would read everything."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST_LISTED."""
        rows: Any = self.object_list
        return int(rows.order_by()[:MOST_LISTED].count())


class LongListAdmin(RowPageAdmin[M]):
    """A list in the order of an indexed time, ``newest_by``."""

    paginator = BoundedPaginator
    newest_by: str

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[M], search_term: str
    ) -> tuple[QuerySet[M], bool]:
        """A row by its whole id; else the skin's search, among the newest rows."""
        term = search_term.strip()
        if term and (named := self.named(queryset, term)) is not None:
            return named, False
        if term:
            times: Any = self.model._default_manager.order_by(f"-{self.newest_by}").values(self.newest_by)
            oldest = times[:MOST_LISTED].aggregate(at=Min(self.newest_by))["at"]
            if oldest is not None:
                queryset = queryset.filter(**{f"{self.newest_by}__gte": oldest})
        return super().get_search_results(request, queryset, search_term)

    def named(self, queryset: QuerySet[M], term: str) -> QuerySet[M] | None:
        """The rows that a search term names exactly; None when it names none."""
        found = queryset.filter(pk=term)
        return found if found.exists() else None
