"""Search for calls by words in their redacted arguments. The work per search is limited."""

from __future__ import annotations

from functools import reduce
from itertools import islice
from operator import and_
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce, Length
from django.db.models.lookups import LessThanOrEqual

from mcp_app.execution.call_log import redactor
from mcp_app.models import Call
from mcp_app.protocol.call_state import OPEN

# Maximum number of calls searched in each open state, and maximum number of results.
MOST_OPEN: Final = 500
MOST_FOUND: Final = 200
# Longer arguments are shown only on the page of their call.
LONGEST: Final = 20_000
# Ordering by an expression keeps SQLite from using the column's index. With the index, SQLite would scan all
# calls in that order to find the few in one state.
_ACCEPTED: Final = Coalesce(F("accepted_at"), F("accepted_at"))
OLDEST_FIRST: Final = (_ACCEPTED.asc(),)


def telling(calls: QuerySet[Any], text: str) -> list[UUID]:
    """Return the ids of the calls that contain all words of ``text``.

    A word may occur in the name of the tool or in the redacted arguments.
    """
    said = ArgumentMatches(text)
    rows = calls.filter(said.stored).order_by(_ACCEPTED.desc()).values_list("pk", "tool", "arguments")
    # Only calls that match after redaction count. A call that matches only by a secret would otherwise take
    # the place of another result.
    shown = (pk for pk, tool, arguments in rows.iterator(MOST_FOUND) if said.is_shown(tool, arguments))
    return list(islice(shown, MOST_FOUND))


class ArgumentMatches:
    """A matcher for calls. It tests words first in the database and then in the redacted text."""

    def __init__(self, text: str) -> None:
        self._words = text.lower().split()
        self._clean = redactor()

    @property
    def stored(self) -> Q:
        """The query condition for calls that may match. It excludes calls with long arguments."""
        words = (Q(arguments__icontains=word) | Q(tool__icontains=word) for word in self._words)
        return reduce(and_, words, Q(LessThanOrEqual(Length("arguments"), LONGEST)))

    @property
    def named(self) -> Q:
        """The query condition for calls whose tool name contains all words."""
        return reduce(and_, (Q(tool__icontains=word) for word in self._words), Q())

    def is_shown(self, tool: str, arguments: str) -> bool:
        """Return True if each word occurs in the name of the tool or in the redacted arguments."""
        if all(word in tool.lower() for word in self._words):
            return True
        shown = self._clean.message(arguments.encode("utf-8", "replace"), LONGEST * 4)
        said = f"{tool} {shown}".lower()
        return all(word in said for word in self._words)


def open_calls(*columns: Any) -> QuerySet[Any, tuple[Any, ...]]:
    """Return columns of the calls in open states, such as waiting and running.

    An index limits the number of rows read for each state.
    """
    parts = [
        Call.objects.filter(
            pk__in=Call.objects.filter(state=state).order_by("lease_until").values("pk")[:MOST_OPEN]
        )
        .order_by()
        .values_list(*columns)
        for state in OPEN
    ]
    return parts[0].union(*parts[1:], all=True)
