"""Owns lists of rows that may be very many: pages and search are bounded, whatever the table holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import Min, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from mcp_app.admin.base import M, RowPageAdmin
from mcp_app.auth.principal_names import principal_names
from mcp_app.interface.clients import client_names
from mcp_app.models import Message

# How many rows a list has pages for, and how many of the newest ones are searched.
MOST_LISTED: Final = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """Counts no further than the list has pages: counting everything would read everything."""

    @cached_property
    def count(self) -> int:
        """How many rows there are, at most MOST_LISTED."""
        rows: Any = self.object_list
        # Keys only: what a list adds to its rows would be worked out for each that is counted.
        return int(rows.order_by().values("pk")[:MOST_LISTED].count())


class LongListAdmin(RowPageAdmin[M]):
    """A list in the order of an indexed time, ``newest_by``."""

    paginator = BoundedPaginator
    newest_by: str

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list; its rows know the names of who they are of."""
        changelist: Any = super().get_changelist_instance(request)
        name_callers(changelist.result_list)
        return changelist

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[M], search_term: str
    ) -> tuple[QuerySet[M], bool]:
        """A row by its whole id; else the skin's search and what it cannot see, among the newest rows."""
        term = search_term.strip()
        if not term:
            return super().get_search_results(request, queryset, search_term)
        if (named := self.named(queryset, term)) is not None:
            return named, False
        newest = among_newest(self.model._default_manager.all(), self.newest_by)
        queryset = queryset.filter(**newest)
        found, repeats = super().get_search_results(request, queryset, search_term)
        if also := self.also_found(queryset, term):
            # The time once more: a planner does not look into both halves for what bounds them.
            found = (found | queryset.filter(pk__in=also)).filter(**newest)
        return found, repeats

    def also_found(self, queryset: QuerySet[M], term: str) -> list[Any]:
        """The keys of rows that say a term in a field that cannot be searched as it is stored."""
        return []

    def named(self, queryset: QuerySet[M], term: str) -> QuerySet[M] | None:
        """The rows that a search term names exactly; None when it names none."""
        found = queryset.filter(pk=term)
        return found if found.exists() else None


def among_newest(rows: QuerySet[Any], newest_by: str) -> dict[str, Any]:
    """The filter that leaves the newest MOST_LISTED of some rows, by an indexed time; empty without rows."""
    times = rows.order_by(f"-{newest_by}").values(newest_by)[:MOST_LISTED]
    oldest = times.aggregate(at=Min(newest_by))["at"]
    return {} if oldest is None else {f"{newest_by}__gte": oldest}


def name_callers(rows: Iterable[Any]) -> None:
    """Let each row know, as ``who``, the name behind its principal; two queries for all of them."""
    rows = list(rows)
    names = principal_names({row.principal for row in rows})
    for row in rows:
        row.who = names[row.principal]


def name_clients(messages: Iterable[Message]) -> None:
    """Let each message know, as ``client``, what its client calls itself; one query for all of them."""
    messages = list(messages)
    names = client_names(message.session_id for message in messages if message.session_id)
    for message in messages:
        vars(message)["client"] = names.get(message.session_id or "", "")
