"""Lists of tables that may be very large. The work for a page or a search is limited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.core.paginator import Paginator
from django.db.models import Min, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from mcp_app.admin.base import M, RowPageAdmin
from mcp_app.admin.callers.links import linked_name
from mcp_app.auth.principal_names import caller_names
from mcp_app.interface.clients import client_names
from mcp_app.models import Message

# Maximum number of rows that the pages of a list cover, and number of newest rows that a search covers.
MOST_LISTED: Final = 10_000


class BoundedPaginator(Paginator):  # type: ignore[type-arg]
    """A paginator that counts at most ``MOST_LISTED`` rows, because an exact count would scan the table."""

    @cached_property
    def count(self) -> int:
        """Count the rows, but at most ``MOST_LISTED``."""
        rows: Any = self.object_list
        # Only primary keys are selected, because annotations would be computed for every counted row.
        return int(rows.order_by().values("pk")[:MOST_LISTED].count())


class LongListAdmin(RowPageAdmin[M]):
    """Admin pages of a large table, ordered by the indexed time in ``newest_by``."""

    paginator = BoundedPaginator
    newest_by: str

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list. The display names of the principals are attached to its rows."""
        changelist: Any = super().get_changelist_instance(request)
        name_callers(changelist.result_list, request.user)
        return changelist

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[M], search_term: str
    ) -> tuple[QuerySet[M], bool]:
        """Find a row by its complete id, or search the newest rows.

        Rows from ``also_found`` are added to the results of Django's search.
        """
        term = search_term.strip()
        if not term:
            return super().get_search_results(request, queryset, search_term)
        if (named := self.named(queryset, term)) is not None:
            return named, False
        newest = among_newest(self.model._default_manager.all(), self.newest_by)
        queryset = queryset.filter(**newest)
        found, repeats = super().get_search_results(request, queryset, search_term)
        if also := self.also_found(queryset, term):
            # The time limit is repeated, because query planners do not infer it from the two parts of the OR.
            found = (found | queryset.filter(pk__in=also)).filter(**newest)
        return found, repeats

    def also_found(self, queryset: QuerySet[M], term: str) -> list[Any]:
        """Return the primary keys of rows that match a term in a field that SQL cannot search."""
        return []

    def named(self, queryset: QuerySet[M], term: str) -> QuerySet[M] | None:
        """Return the rows that a search term identifies exactly, or None if there are none."""
        found = queryset.filter(pk=term)
        return found if found.exists() else None


def among_newest(rows: QuerySet[Any], newest_by: str) -> dict[str, Any]:
    """Return a filter for the newest ``MOST_LISTED`` rows by an indexed time, or {} if there are no rows."""
    times = rows.order_by(f"-{newest_by}").values(newest_by)[:MOST_LISTED]
    oldest = times.aggregate(at=Min(newest_by))["at"]
    return {} if oldest is None else {f"{newest_by}__gte": oldest}


def name_callers(rows: Iterable[Any], user: Any = None) -> None:
    """Set the attribute ``who`` of each row to its principal's display name.

    With ``user``, also set ``caller`` to the name as HTML, with links to pages that ``user`` may open.
    """
    rows = list(rows)
    names = caller_names({row.principal for row in rows})
    links = {key: linked_name(user, key, name) for key, name in names.items()} if user is not None else {}
    for row in rows:
        row.who = str(names[row.principal])
        row.caller = links.get(row.principal)


def name_clients(messages: Iterable[Message]) -> None:
    """Set the attribute ``client`` of each message to the name of its client, in one query."""
    messages = list(messages)
    names = client_names(message.session_id for message in messages if message.session_id)
    for message in messages:
        vars(message)["client"] = names.get(message.session_id or "", "")
