"""Search for calls by words of their redacted arguments, in bounded time."""

from __future__ import annotations

from functools import reduce
from itertools import islice
from operator import and_
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Length
from django.db.models.lookups import LessThanOrEqual

from mcp_app.admin.long_lists import MOST_LISTED
from mcp_app.execution.call_log import redactor
from mcp_app.models import Call
from mcp_app.protocol.call_state import OPEN

# Number of calls searched for each open state, and the maximum number of results.
MOST_OPEN: Final = 500
MOST_FOUND: Final = 200
# Longer arguments are only shown on the call's page.
LONGEST: Final = 20_000
# An expression hides the column's index from SQLite, which would scan all calls in that order for the few in
# one state.
_ACCEPTED: Final = Coalesce(F("accepted_at"), F("accepted_at"))
OLDEST_FIRST: Final = (_ACCEPTED.asc(),)
HELP: Final = f"words of the arguments; of the newest {MOST_LISTED:,} calls."


def telling(calls: QuerySet[Any], text: str) -> list[UUID]:
    """Return the ids of the calls whose tool and redacted arguments contain all words of ``text``."""
    said = ArgumentMatches(text)
    rows = calls.filter(said.stored).order_by(_ACCEPTED.desc()).values_list("pk", "tool", "arguments")
    # Count only calls that match after redaction: a call that matches by a secret would displace another.
    shown = (pk for pk, tool, arguments in rows.iterator(MOST_FOUND) if said.is_shown(tool, arguments))
    return list(islice(shown, MOST_FOUND))


class ArgumentMatches:
    """A matcher for all words of a text, first in the database, then after redaction."""

    def __init__(self, text: str) -> None:
        self._words = text.lower().split()
        self._clean = redactor()

    @property
    def stored(self) -> Q:
        """Database condition for candidates; it never matches calls with long arguments."""
        words = (Q(arguments__icontains=word) | Q(tool__icontains=word) for word in self._words)
        return reduce(and_, words, Q(LessThanOrEqual(Length("arguments"), LONGEST)))

    @property
    def named(self) -> Q:
        """Database condition that matches the words in the tool's name only."""
        return reduce(and_, (Q(tool__icontains=word) for word in self._words), Q())

    def is_shown(self, tool: str, arguments: str) -> bool:
        """Return True if the words occur in the tool's name or in the arguments as displayed."""
        if all(word in tool.lower() for word in self._words):
            return True
        shown = self._clean.message(arguments.encode("utf-8", "replace"), LONGEST * 4)
        said = f"{tool} {shown}".lower()
        return all(word in said for word in self._words)


def open_calls(*columns: Any) -> QuerySet[Any, tuple[Any, ...]]:
    """Return columns of waiting and running calls, a bounded number for each state, by an index."""
    parts = [
        Call.objects.filter(
            pk__in=Call.objects.filter(state=state).order_by("lease_until").values("pk")[:MOST_OPEN]
        )
        .order_by()
        .values_list(*columns)
        for state in OPEN
    ]
    return parts[0].union(*parts[1:], all=True)
