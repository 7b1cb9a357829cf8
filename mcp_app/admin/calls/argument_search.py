"""Owns finding calls by words of their arguments as these are shown: without secrets, in bounded time."""

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

# How many calls of each open state the box looks through, and how many are found.
MOST_OPEN: Final = 500
MOST_FOUND: Final = 200
# Longer ones stand on the call's own page only.
LONGEST: Final = 20_000
# No index serves it: SQLite would look through all calls in their order for the few of one state.
_ACCEPTED: Final = Coalesce(F("accepted_at"), F("accepted_at"))
OLDEST_FIRST: Final = (_ACCEPTED.asc(),)
HELP: Final = f"words of the arguments; of the newest {MOST_LISTED:,} calls."


def telling(calls: QuerySet[Any], text: str) -> list[UUID]:
    """Those of these calls whose tool and arguments, as they are shown, have all words of a text."""
    said = ArgumentMatches(text)
    rows = calls.filter(said.stored).order_by(_ACCEPTED.desc()).values_list("pk", "tool", "arguments")
    # Only what is shown counts towards the limit: a call that a secret matched would push another out.
    shown = (pk for pk, tool, arguments in rows.iterator(MOST_FOUND) if said.is_shown(tool, arguments))
    return list(islice(shown, MOST_FOUND))


class ArgumentMatches:
    """Whether calls have all words of a text: first as they are stored, then as they are shown."""

    def __init__(self, text: str) -> None:
        self._words = text.lower().split()
        self._clean = redactor()

    @property
    def stored(self) -> Q:
        """What the database can say; never of a call with long arguments."""
        words = (Q(arguments__icontains=word) | Q(tool__icontains=word) for word in self._words)
        return reduce(and_, words, Q(LessThanOrEqual(Length("arguments"), LONGEST)))

    @property
    def named(self) -> Q:
        """The same of the tool alone."""
        return reduce(and_, (Q(tool__icontains=word) for word in self._words), Q())

    def is_shown(self, tool: str, arguments: str) -> bool:
        """Of one call that was found so: without secrets, and as JSON is written on its page."""
        if all(word in tool.lower() for word in self._words):
            return True
        shown = self._clean.message(arguments.encode("utf-8", "replace"), LONGEST * 4)
        said = f"{tool} {shown}".lower()
        return all(word in said for word in self._words)


def open_calls(*columns: Any) -> QuerySet[Any, tuple[Any, ...]]:
    """Columns of the calls that wait or run; of each state a bounded number, which an index hands out."""
    parts = [
        Call.objects.filter(
            pk__in=Call.objects.filter(state=state).order_by("lease_until").values("pk")[:MOST_OPEN]
        )
        .order_by()
        .values_list(*columns)
        for state in OPEN
    ]
    return parts[0].union(*parts[1:], all=True)
