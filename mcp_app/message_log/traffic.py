"""Queries of the counts of the message log: tool calls over time and by tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import Field, Q, QuerySet, Sum

from mcp_app.message_log.pages import ERRORS
from mcp_app.message_log.rollup_cells import MINUTE, MISTAKES, percentile
from mcp_app.message_log.rollups import DAY, HOUR, TEN_MINUTES, retention
from mcp_app.models import Message, Rollup
from mcp_app.models.rollup import BUCKET_COLUMNS


@dataclass(frozen=True, slots=True)
class Period:
    """A period of ``points`` steps of ``span`` seconds each. It ends at ``until``, or now if that is None."""

    name: str
    title: str
    span: int
    points: int
    until: datetime | None = None

    def starts(self, now: datetime) -> list[datetime]:
        """Return the start of each point. If the period ends now, its last point is incomplete."""
        end = int(now.timestamp()) if self.until is None else int(self.until.timestamp()) - 1
        last = end // self.span * self.span
        first = last - (self.points - 1) * self.span
        return [datetime.fromtimestamp(at, UTC) for at in range(first, last + 1, self.span)]


def between(since: datetime, until: datetime, span: int) -> Period:
    """Return the period from ``since`` to ``until``, extended to whole points."""
    first, end = int(since.timestamp()) // span, -(-int(until.timestamp()) // span)
    return Period("", "", span, end - first, datetime.fromtimestamp(end * span, UTC))


PERIODS: Final = {
    period.name: period
    for period in (
        Period("hour", "Last hour", MINUTE, 60),
        Period("day", "Last day", TEN_MINUTES, 144),
        Period("week", "Last 7 days", HOUR, 168),
    )
}


@dataclass(slots=True)
class CallFigures:
    """The number of tool calls by outcome, and the histogram of their durations.

    A call fails if the server or the tool reports an error. A call that the gate refused because of its
    caller, or that was not approved, is ``refused`` and has not failed. ``ms`` and ``size`` are the sums of
    durations in milliseconds and of bytes.
    """

    ok: int = 0
    failed: int = 0
    refused: int = 0
    cancelled: int = 0
    ms: float = 0.0
    size: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * len(BUCKET_COLUMNS))

    @property
    def all(self) -> int:
        """The number of calls with any outcome."""
        return self.ok + self.failed + self.refused + self.cancelled

    @property
    def error_rate(self) -> float | None:
        """The fraction of calls that failed, or None if there were no calls."""
        return self.failed / self.all if self.all else None

    @property
    def p50(self) -> float | None:
        """The approximate median duration in seconds."""
        return percentile(self.buckets, 0.5)

    @property
    def p95(self) -> float | None:
        """The approximate 95th percentile of durations in seconds."""
        return percentile(self.buckets, 0.95)

    def add(
        self,
        outcome: str,
        count: int,
        buckets: Iterable[int | None],
        *,
        ms: float | None = None,
        size: int | None = None,
    ) -> None:
        """Add calls with one outcome. Counts and sums are None if they were never stored."""
        if outcome in ERRORS:
            self.failed += count
        elif outcome == Message.Outcome.REFUSED:
            self.refused += count
        elif outcome == Message.Outcome.CANCELLED:
            self.cancelled += count
        else:
            self.ok += count
        self.ms += ms or 0
        self.size += size or 0
        self.buckets = [mine + (more or 0) for mine, more in zip(self.buckets, buckets, strict=True)]

    def include(self, other: CallFigures) -> None:
        """Add the calls of ``other``."""
        self.ok += other.ok
        self.failed += other.failed
        self.refused += other.refused
        self.cancelled += other.cancelled
        self.ms += other.ms
        self.size += other.size
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]


@dataclass(frozen=True, slots=True)
class Traffic:
    """The tool calls in a period: in total, per point, and for the tools with the most calls.

    ``minutes`` is the length of the part of the period for which counts exist. A new server has counts only
    since its first start.
    """

    period: Period
    minutes: float
    total: CallFigures
    points: list[tuple[datetime, CallFigures]]
    tools: list[tuple[str, CallFigures]]
    more_tools: int

    def per_minute(self, at: datetime, calls: CallFigures, now: datetime) -> float:
        """Return the calls per minute in one point.

        The last point is incomplete, so only the seconds since its start count.
        """
        seconds = min(self.period.span, max((now - at).total_seconds(), MINUTE))
        return calls.all * MINUTE / seconds


def read(period: Period, now: datetime, most_tools: int) -> Traffic:
    """Return the traffic in a period. The number of queries does not depend on the number of messages."""
    with by_index():
        return _read(period, now, most_tools)


@contextmanager
def by_index() -> Iterator[None]:
    """Make PostgreSQL use indexes within this context.

    A week covers a third of all rows. PostgreSQL assumes the costs of a spinning disk by default and would
    therefore read the whole table, which is four times as much work.
    """
    if connection.vendor != "postgresql":
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        yield


def _read(period: Period, now: datetime, most_tools: int) -> Traffic:
    points = _points(period, now, "")
    first, last = points[0][0], points[-1][0]
    total = CallFigures()
    for _, calls in points:
        total.include(calls)
    rows = calls_of(fewest_cells(period.span, first, last, now)).exclude(tool="").order_by()
    called = dict(rows.values_list("tool").annotate(number=Sum("count")))
    ordered = sorted(called, key=lambda tool: (-called[tool], tool))
    tools = {tool: CallFigures() for tool in ordered[:most_tools]}
    # Histograms are summed for the listed tools only. Summing those of all tools would take most of the time.
    for tool, outcome, count, ms, size, *buckets in summed(rows.filter(tool__in=list(tools)), "tool"):
        tools[tool].add(outcome, count, buckets, ms=ms, size=size)
    minutes = _counted_minutes(period, first, now)
    return Traffic(period, minutes, total, points, list(tools.items()), len(called) - len(tools))


def current_rate(now: datetime) -> float:
    """Return the calls in the last minute.

    The part of it that is in the previous minute of the clock is estimated as the same part of its calls.
    """
    current = datetime.fromtimestamp(int(now.timestamp()) // MINUTE * MINUTE, UTC)
    before = current - timedelta(seconds=MINUTE)
    rows = calls_of(Q(span=MINUTE, at__in=(before, current))).filter(tool="").order_by()
    calls = dict(rows.values_list("at").annotate(number=Sum("count")))
    left = 1 - (now - current).total_seconds() / MINUTE
    return float(calls.get(current, 0) + calls.get(before, 0) * left)


def over_time(period: Period, now: datetime, tool: str) -> list[tuple[datetime, CallFigures]]:
    """Return the calls in each point of a period.

    ``tool`` is the name of a tool, or "" for the calls of all tools.
    """
    with by_index():
        return _points(period, now, tool)


def _points(period: Period, now: datetime, tool: str) -> list[tuple[datetime, CallFigures]]:
    points = {at: CallFigures() for at in period.starts(now)}
    first, *_, last = points
    # Rows after the last point are excluded, because a process whose clock is ahead may have counted later
    # calls.
    rows = calls_of(Q(span=period.span, at__gte=first, at__lte=last)).filter(tool=tool)
    # There is one row per point and outcome, so nothing needs to be summed.
    for at, outcome, count, ms, size, *buckets in rows.order_by().values_list("at", "outcome", *_NUMBERS):
        points[at].add(outcome, count, buckets, ms=ms, size=size)
    return list(points.items())


def mistakes_in(period: Period, now: datetime) -> dict[str, int]:
    """Return the number of calls whose error the tool itself reported, by tool, with "" for all tools."""
    first, *_, last = period.starts(now)
    rows = Rollup.objects.filter(span=period.span, at__gte=first, at__lte=last, method=MISTAKES)
    return dict(rows.order_by().values_list("tool").annotate(number=Sum("count")))


def calls_of(cells: Q) -> QuerySet[Rollup]:
    """Return the counts of finished tool calls in the cells that match a condition."""
    return Rollup.objects.filter(cells, method="tools/call").exclude(outcome="")


def fewest_cells(shortest: int, first: datetime, last: datetime, now: datetime) -> Q:
    """Return the smallest set of cells from ``first`` to the end of the ``shortest`` span at ``last``.

    For example, a week is 168 hours, or 6 days and 24 hours. The second form has a sixth of the rows to sum.
    Cells that may already have been deleted are not used. One query covers all spans, because building a
    query that sums every bucket takes as long as running it.
    """
    since = {
        span: (now - retention(span)).timestamp() for span in (DAY, HOUR, TEN_MINUTES) if span > shortest
    }
    found: dict[int, list[datetime]] = {}
    at, end = int(first.timestamp()), int(last.timestamp()) + shortest
    while at < end:
        fits = (span for span in since if at % span == 0 and since[span] < at <= end - span)
        span = next(fits, shortest)
        found.setdefault(span, []).append(datetime.fromtimestamp(at, UTC))
        at += span
    return reduce(or_, (Q(span=span, at__in=begin) for span, begin in found.items()))


def _counted_minutes(period: Period, starts: datetime, now: datetime) -> float:
    first = Rollup.objects.filter(span=period.span).order_by("at").values_list("at", flat=True).first()
    counted = (period.until or now) - max(starts, first or starts)
    return max(counted.total_seconds() / MINUTE, 1.0)


_NUMBERS: Final = ("count", "ms", "size", *BUCKET_COLUMNS)
# Fields without a type, because the 88 numbers in each row then need no conversion.
_SUMS: Final = {f"sum_{column}": Sum(column, output_field=Field()) for column in _NUMBERS}


def summed(rows: QuerySet[Any], name: str) -> Iterable[tuple[Any, ...]]:
    """Sum the numbers of calls for each value of a column and each outcome.

    The rows have the value, the outcome, and the sums of calls, milliseconds, bytes and calls per bucket.
    """
    found: Iterable[tuple[Any, ...]] = rows.order_by().values_list(name, "outcome").annotate(**_SUMS)
    return found


def began(now: datetime) -> bool:
    """Return True if any call has ever been counted."""
    return Rollup.objects.filter(span=HOUR, at__lte=now + timedelta(days=1)).exists()
