"""Owns one thing that was found, and how well its names fit what was asked for."""

from __future__ import annotations

from typing import Final, NamedTuple

from django.urls import reverse_lazy
from django.utils.functional import Promise

# How many of a kind are shown.
MOST_OF_KIND: Final = 6
# After all that is named so: what mentions it, then the messages that say it.
MENTIONS, SAYS = 3, 4


class SearchResult(NamedTuple):
    """One thing with its page; ``rank`` 0 is named exactly so, 1 begins so, 2 has it somewhere, 3 says it."""

    rank: int
    kind: str
    title: str
    note: str
    url: str | Promise  # written out when it is shown: of what is found, most is not


def rank_of(text: str, *names: str) -> int | None:
    """How well the best of the names fits; None where none does."""
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
    """The better of two ranks; None where there is neither."""
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def place(rank: int, title: str) -> tuple[int, int]:
    """The shortest name has least beside what was asked for; what only mentions it stays in its order."""
    return rank, len(title) if rank < MENTIONS else 0


def page_of(model: str, pk: object) -> Promise:
    """The page of one row."""
    return reverse_lazy(f"admin:mcp_app_{model}_change", args=[pk])
