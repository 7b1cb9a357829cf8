"""The results of the global search, ranked by how well their names match the query."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.urls import reverse_lazy
from django.utils.functional import Promise

# Maximum number of results per kind.
MOST_OF_KIND: Final = 6
# Ranks below matches by name: documents that contain the text, then messages that contain it.
MENTIONS, SAYS = 3, 4


class SearchResult(NamedTuple):
    """A search result with a link to its page.

    ``rank`` compares the query with the names of the result. It is 0 for an equal name, 1 for a name that
    begins with the query, and 2 for a name that contains it. It is 3 if only the text contains the query.
    """

    rank: int
    kind: str
    title: str
    note: str
    url: str | Promise  # Resolved only for results that are displayed.


def rank_of(text: str, *names: str) -> int | None:
    """Return the best rank among the names, or None if no name matches."""
    wanted = text.lower()
    best: int | None = None
    for name in names:
        if (at := (lower := name.lower()).find(wanted)) < 0:
            continue
        if len(lower) == len(wanted):
            return 0
        best = 1 if not at or best == 1 else 2
    return best


def better(first: int | None, second: int | None) -> int | None:
    """Return the better of two ranks, or None if both are None."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def place(rank: int, title: str) -> tuple[int, int]:
    """Return the sort key of a result: by rank, then by length of the title.

    Results below matches by name keep their order.
    """
    return rank, len(title) if rank < MENTIONS else 0


def page_of(model: str, pk: object) -> Promise:
    """Return the address of a row's admin page."""
    return reverse_lazy(f"admin:mcp_app_{model}_change", args=[pk])
