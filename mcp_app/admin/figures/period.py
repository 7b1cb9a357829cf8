"""The period in a query string: a named period that ends now, or a range selected on a chart."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app.admin.markup import in_utc
from mcp_app.message_log.rollups import HOUR, KEPT, retention
from mcp_app.message_log.search.times import NotATime, begin_of, end_of
from mcp_app.message_log.traffic import PERIODS, Period, between

# With more columns, a chart would be unreadable.
MOST_POINTS: Final = 200
_SECOND: Final = timedelta(seconds=1)


def asked_period(request: HttpRequest, now: datetime) -> Period:
    """Return the requested period.

    Returns the last hour if no period is requested or the requested range has no stored counts.
    """
    chosen = _chosen(request.GET.get("since", ""), request.GET.get("until", ""), now)
    return chosen or PERIODS.get(request.GET.get("range", ""), PERIODS["hour"])


def query_of(period: Period) -> dict[str, str]:
    """Return the query parameters that request a period, on these pages and in the log.

    A range in the log includes its last second.
    """
    if period.until is None:
        return {"range": period.name}
    return {"since": in_utc(_since(period.until, period)), "until": in_utc(period.until - _SECOND)}


def end_of_log(until: datetime | None) -> dict[str, str]:
    """Return the query parameter that ends a range in the log, or {} if the range ends now."""
    return {} if until is None else {"until": in_utc(until - _SECOND)}


def chosen_url(period: Period) -> str:
    """Return the query string for a range selected on a chart, or "" if the period ends now."""
    return "" if period.until is None else "?" + urlencode(query_of(period))


def _chosen(since: str, until: str, now: datetime) -> Period | None:
    if not since or not until:
        return None
    try:
        # Limited before the addition, because adding to the last possible datetime would overflow.
        begin, end = begin_of(since), min(end_of(until), now + timedelta(minutes=1)) + _SECOND / 1_000_000
    except NotATime:
        return None
    for span in (*KEPT, HOUR):
        if now - retention(span) < begin < end and (end - begin).total_seconds() <= span * MOST_POINTS:
            found = between(begin, end, span)
            return Period("", _title(found, now), found.span, found.points, found.until)
    return None


def _since(until: datetime, period: Period) -> datetime:
    return until - timedelta(seconds=period.span * period.points)


def _title(period: Period, now: datetime) -> str:
    """Return the title of a range, in the time zone of the page.

    Dates are included unless the whole range is today.
    """
    assert period.until is not None
    today, begin, end = (timezone.localtime(at) for at in (now, _since(period.until, period), period.until))
    day = "" if begin.date() == today.date() == end.date() else f"{begin:%Y-%m-%d} "
    last = f"{end:%H:%M}" if begin.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
    return f"{day}{begin:%H:%M} to {last}"
