"""The page of statistics: the tool calls in a period by tool, client, person or time, and the workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app.admin.figures.period import asked_period, end_of_log, query_of
from mcp_app.admin.figures.table import Cell, FigureRow, Head, Table, heads, lines, order_of, sorted_rows
from mcp_app.admin.figures.workers import WorkerRow, workers
from mcp_app.admin.markup import in_utc
from mcp_app.admin.timeline import refusals_of
from mcp_app.auth.principal_names import principal_names
from mcp_app.auth.time_zone import shown_zone
from mcp_app.database import clock
from mcp_app.execution.stored.waiting_times import StartedCall, share, started_calls
from mcp_app.interface.text import marked
from mcp_app.message_log import traffic
from mcp_app.message_log.counts import tool_figures
from mcp_app.message_log.counts.figures import TOOL, Named, named
from mcp_app.message_log.counts.refusals import RefusalCount
from mcp_app.message_log.pages import ANSWERED, FAILED
from mcp_app.message_log.rollup_cells import MINUTE, TOOL_CHARACTERS
from mcp_app.message_log.rollups import MOST_TOOLS
from mcp_app.message_log.traffic import PERIODS, Period
from mcp_app.models import CallerRollup
from mcp_app.protocol.messages.methods import OTHER

TIME: Final = "time"
CLIENT, PRINCIPAL = CallerRollup.Kind.CLIENT.value, CallerRollup.Kind.PRINCIPAL.value
# For each view, the heading of the first column, and the filter of the log that finds the messages of a row.
BY: Final = {
    TOOL: ("Tool", "target"),
    CLIENT: ("Client", "client"),
    PRINCIPAL: ("Who", "principal"),
    TIME: ("From", ""),
}
# The search that finds the calls counted as OTHER. They include calls of tools that were not offered to the
# caller.
NO_TOOL: Final = 'tool:""'
UNKNOWN_TOOLS: Final = "unknown tools"
NOT_NAMED: Final = f"not offered to who called, or beyond {MOST_TOOLS} in an hour"
# The percentile shown for the time in the queue. The median would hide delays, and the maximum is only an
# outlier.
WAITED: Final = 0.95
PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class ViewChoice:
    """A link to a view or a period of the page."""

    title: str
    url: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Figures:
    """The content of the page: links to its views, the table, and the workers that the user may view."""

    at: datetime
    since: datetime
    periods: list[ViewChoice]
    views: list[ViewChoice]
    table: Table
    page: Page[FigureRow]
    heads: list[Head]
    csv_url: str
    more: int
    workers: list[WorkerRow]
    refusals: list[tuple[RefusalCount, str]]
    counts_callers: bool
    tool: str
    whole: bool

    @property
    def lines(self) -> list[tuple[FigureRow, list[Cell]]]:
        """The rows on the current page of the table, each with its cells.

        The CSV file contains all rows.
        """
        return lines(self.page)


def figures(request: HttpRequest) -> Figures:
    """Return the statistics that the query string requests."""
    now = clock.utcnow()
    period = asked_period(request, now)
    by, tool = asked_view(request)
    order = order_of(request.GET.get("sort", "-name" if by == TIME else ""))
    limit = {"tool": tool} if tool else {}
    query = {**query_of(period), "by": by, **limit}
    begun = [call for call in _started_calls(request, by, period, now) if not tool or call.tool == tool]
    read = _over_time(period, now, tool) if by == TIME else _by_name(by, period, now, begun, tool)
    since, rows, more, whole = read
    table = Table(_title(by, tool), _first(by), sorted_rows(rows, order), order)
    return Figures(
        min(period.until or now, now),
        since,
        _periods(period, {"by": by, **limit}),
        [_choice(title, {**query, "by": name}, name == by) for name, title in VIEWS.items()],
        table,
        Paginator(table.rows, PAGE).get_page(request.GET.get("p")),
        heads(table, query),
        "?" + urlencode({**query, "sort": order, "format": "csv"}),
        more,
        workers(begun) if request.user.has_perm("mcp_app.view_call") else [],
        refusals_of(since, period.until, tool),
        by in (CLIENT, PRINCIPAL),
        tool,
        whole,
    )


def asked_view(request: HttpRequest) -> tuple[str, str]:
    """Return the requested view and tool. In the view by tool, the tool is always ""."""
    by, tool = request.GET.get("by", ""), request.GET.get("tool", "")[:TOOL_CHARACTERS].replace("\x00", "")
    by = by if by in BY else CLIENT if tool else TOOL
    return by, "" if by == TOOL else tool


def tool_figures_url(tool: str, **period: str) -> str:
    """Return the address of a tool's statistics by client."""
    query = urlencode({**period, "by": CLIENT, "tool": tool})
    return f"{reverse('admin:mcp_app_message_figures')}?{query}"


def _title(by: str, tool: str) -> str:
    calls = f"Calls of {marked(tool)}" if tool else "Tool calls"
    return f"{calls} {VIEWS[by].lower()}"


VIEWS: Final = {TOOL: "By tool", CLIENT: "By client", PRINCIPAL: "By person", TIME: "Over time"}


def _first(by: str) -> str:
    """Return the heading of the first column.

    For times it includes the time zone, because a CSV file has no other place for it.
    """
    return f"{BY[by][0]} ({shown_zone()})" if by == TIME else BY[by][0]


def _choice(title: str, query: dict[str, str], chosen: bool) -> ViewChoice:
    return ViewChoice(title, "?" + urlencode(query), chosen)


def _periods(period: Period, query: dict[str, str]) -> list[ViewChoice]:
    """Return links to the periods that end now, and to a period that the user selected on a chart."""
    found = [*PERIODS.values(), *([] if period.until is None else [period])]
    return [_choice(each.title, {**query_of(each), **query}, each == period) for each in found]


def _started_calls(request: HttpRequest, by: str, period: Period, now: datetime) -> list[StartedCall]:
    """Return the background calls that started in the period, or [] if the user may not view calls."""
    if not request.user.has_perm("mcp_app.view_call"):
        return []
    return started_calls(period.starts(now)[0], period.until, clients=by == CLIENT)


Read = tuple[datetime, list[FigureRow], int, bool]


def _over_time(period: Period, now: datetime, tool: str) -> Read:
    points = traffic.over_time(period, now, tool)
    limit = {"target": tool} if tool else {}
    rows = [
        FigureRow(
            _written(at, period),
            calls,
            urls=_urls(
                {"since": in_utc(at), "until": in_utc(at + timedelta(seconds=period.span - 1)), **limit}
            ),
        )
        for at, calls in points
        if calls.all
    ]
    return points[0][0], rows, 0, True


def _written(at: datetime, period: Period) -> str:
    return timezone.localtime(at).strftime("%H:%M" if period.span == MINUTE else "%Y-%m-%d %H:%M")


def _by_name(by: str, period: Period, now: datetime, begun: Iterable[StartedCall], tool: str) -> Read:
    found, whole = tool_figures.called_by(by, tool, period, now) if tool else (named(by, period, now), True)
    limit = {"target": tool} if tool else {}
    waited, notes = _waited(by, begun), _notes(by, found)
    rows = []
    for name, calls in found.calls:
        # There is no link for "other" and for callers without a name, because the log cannot be filtered by
        # them.
        is_named = name not in ("", OTHER)
        time = {"since": in_utc(found.since), **end_of_log(found.until)}
        urls = _urls({BY[by][1]: name, **limit, **time}) if is_named else {}
        if name == OTHER and by == TOOL:
            urls = _urls({"q": NO_TOOL, **time})
        shown, note = _others(by) if name == OTHER else notes.get(name, (name, ""))
        wait = share(waited.get(name, []), WAITED)
        callers = tool_figures_url(name, **query_of(period)) if by == TOOL and is_named else ""
        rows.append(FigureRow(shown or "(no name)", calls, wait, note, urls, callers))
    return found.since, rows, found.more, whole


def _others(by: str) -> tuple[str, str]:
    """Return the name and the note for the row of calls counted as OTHER."""
    return (UNKNOWN_TOOLS, NOT_NAMED) if by == TOOL else (OTHER, "more together")


def _notes(by: str, found: Named) -> dict[str, tuple[str, str]]:
    """Map principals to display name and note.

    The note is the principal's key, which users can copy into a search.
    """
    if by != PRINCIPAL:
        return {}
    known = principal_names([name for name, _ in found.calls])
    return {name: (shown, name if shown != name else "") for name, shown in known.items()}


def _waited(by: str, begun: Iterable[StartedCall]) -> dict[str, list[float]]:
    """Return the times that background calls waited in the queue, in seconds, grouped by name."""
    found: dict[str, list[float]] = defaultdict(list)
    for call in begun:
        found[{TOOL: call.tool, PRINCIPAL: call.principal}.get(by, call.client)].append(call.waited)
    return found


def _urls(narrowed: dict[str, str]) -> dict[str, str]:
    page = f"{reverse('admin:mcp_app_message_changelist')}?{urlencode({'method': 'tools/call', **narrowed})}"
    outcomes = {"calls": ANSWERED, "failed": FAILED, "rate": FAILED, "cancelled": "cancelled"}
    return {key: f"{page}&outcome={outcome}" for key, outcome in outcomes.items()}


def csv_name(request: HttpRequest) -> str:
    """Return the file name of the CSV file."""
    asked: Any = request.GET
    by, _ = asked_view(request)
    time = "chosen" if asked.get("since") else asked.get("range") if asked.get("range") in PERIODS else "hour"
    return f"calls-by-{by}-{time}.csv"
