"""Queries of the counts: calls by tool, client or principal.

``expected`` returns the number of calls that a filter of the log should find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Sum

from mcp_app.message_log.pages import ANSWERED, ERRORS, FAILED
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.rollups import HOUR, TEN_MINUTES, retention
from mcp_app.message_log.traffic import CallFigures, Period, between, by_index, calls_of, fewest_cells, summed
from mcp_app.models import CallerRollup

# Maximum number of names listed. Calls by further names are part of the total.
MOST_NAMED: Final = 500
TOOL: Final = "tool"
# The log's filter for each kind of name.
_FILTERS: Final = {TOOL: "target", **{kind: kind for kind in CallerRollup.Kind.values}}
_OTHER_FILTERS: Final = ("session", "request_id", "direction", "text", "q")


@dataclass(frozen=True, slots=True)
class Named:
    """The calls in a period by name, the name with the most calls first.

    If ``until`` is None, the period ends now. ``more`` is the number of names that are not listed.
    """

    since: datetime
    until: datetime | None
    calls: list[tuple[str, CallFigures]]
    more: int


def named(by: str, period: Period, now: datetime) -> Named:
    """Return the tool calls in a period, grouped by tool, client or principal."""
    if by != TOOL and period.span == MINUTE:
        # Callers have no counts for shorter spans than ten minutes.
        period = _in_ten_minutes(period)
    starts = period.starts(now)
    found: dict[str, CallFigures] = {}
    with by_index():
        column, rows = _rows(by, fewest_cells(period.span, starts[0], starts[-1], now))
        for name, outcome, count, ms, size, *buckets in summed(rows, column):
            found.setdefault(name, CallFigures()).add(outcome, count, buckets, ms=ms, size=size)
    ordered = sorted(found.items(), key=lambda item: (-item[1].all, item[0]))
    return Named(starts[0], period.until, ordered[:MOST_NAMED], len(ordered[MOST_NAMED:]))


def _in_ten_minutes(period: Period) -> Period:
    if period.until is not None:
        return between(period.until - timedelta(seconds=period.points * MINUTE), period.until, TEN_MINUTES)
    return replace(period, span=TEN_MINUTES, points=period.points * MINUTE // TEN_MINUTES)


def _rows(by: str, cells: Q) -> tuple[str, QuerySet[Any]]:
    if by == TOOL:
        return "tool", calls_of(cells).exclude(tool="")
    return "name", CallerRollup.objects.filter(cells, kind=by)


@dataclass(frozen=True, slots=True)
class Expected:
    """The number of counted tool calls, and the number of those that are missing from the log."""

    calls: int
    left_out: int

    def __str__(self) -> str:
        said = f"The figures count {self.calls:,} call{'' if self.calls == 1 else 's'}"
        return f"{said}, {self.left_out:,} of which are not in the log, because the server was busy."


def expected(asked: dict[str, Any], now: datetime) -> Expected | None:
    """Return the number of calls that the log's filters should find.

    Returns None if the filters include properties that are not counted.
    """
    if asked.get("method") != "tools/call" or not asked.get("outcome") or not asked.get("since"):
        return None
    who = [(by, asked[name]) for by, name in _FILTERS.items() if asked.get(name)]
    if len(who) > 1 or any(asked.get(name) for name in _OTHER_FILTERS):
        return None
    by, name = who[0] if who else (TOOL, "")
    span = _span(by, asked["since"], asked.get("until"), now)
    if span is None:
        return None
    # Rows with an empty tool name count the calls of all tools.
    of_span = Q(span=span)
    rows = calls_of(of_span).filter(tool=name) if by == TOOL else _rows(by, of_span)[1].filter(name=name)
    rows = _ended(rows, asked["outcome"]).filter(at__gte=asked["since"], at__lte=asked.get("until") or now)
    sums = rows.aggregate(calls=Sum("count"), **({"left": Sum("skipped")} if by == TOOL else {}))
    return Expected(sums["calls"] or 0, sums.get("left") or 0)


def _ended(rows: QuerySet[Any], outcome: str) -> QuerySet[Any]:
    if outcome == ANSWERED:
        return rows.exclude(outcome="")
    return rows.filter(outcome__in=ERRORS) if outcome == FAILED else rows.filter(outcome=outcome)


def _span(by: str, since: datetime, until: datetime | None, now: datetime) -> int | None:
    """Return the longest span whose cells begin and end exactly at the requested times.

    Returns None if there is no such span, or if its cells may already have been deleted.
    """
    edges = [since] if until is None else [since, until + timedelta(microseconds=1)]
    for span in (HOUR, TEN_MINUTES, MINUTE) if by == TOOL else (HOUR, TEN_MINUTES):
        if all(edge.timestamp() % span == 0 for edge in edges) and since > now - retention(span):
            return span
    return None
