"""A search result, and its rank by how well its names match the query."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.urls import reverse_lazy
from django.utils.functional import Promise

# Maximum number of results shown for a kind.
MOST_OF_KIND: Final = 6
# Ranks after matches by name: documents that mention the text, then messages that contain it.
MENTIONS, SAYS = 3, 4


class SearchResult(NamedTuple):
    """A result with its page.

    ``rank`` is 0 for an exact name, 1 for a prefix, 2 for a substring, 3 for a mention.
    """

    rank: int
    kind: str
    title: str
    note: str
    url: str | Promise  # resolved when displayed: most results are not


def rank_of(text: str, *names: str) -> int | None:
    """Return the rank of the best matching name; None if no name matches."""
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
    """Return the better of two ranks; None if both are None."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def place(rank: int, title: str) -> tuple[int, int]:
    """Return a sort key: by rank, then shorter titles first; mentions keep their order."""
    return rank, len(title) if rank < MENTIONS else 0


def page_of(model: str, pk: object) -> Promise:
    """Return the address of a row's admin page."""
    return reverse_lazy(f"admin:mcp_app_{model}_change", args=[pk])
