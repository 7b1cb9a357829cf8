"""The page of statistics: the tool calls in a period by tool, client, user or time, and the workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from django.core.paginator import Page, Paginator
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from mcp_app.admin.callers.links import linked, linked_name
from mcp_app.admin.figures.asked import BY, CLIENT, PRINCIPAL, TIME, VIEWS, View, asked_view
from mcp_app.admin.figures.period import asked_period, end_of_log, query_of
from mcp_app.admin.figures.table import Cell, FigureRow, Head, Table, heads, lines, order_of, sorted_rows
from mcp_app.admin.figures.workers import WorkerRow, workers
from mcp_app.admin.markup import in_utc
from mcp_app.admin.timeline import refusals_of
from mcp_app.auth.principal_names import caller_names
from mcp_app.database import clock
from mcp_app.execution.stored.waiting_times import StartedCall, share, started_calls
from mcp_app.interface.links import (
    caller_pages,
    figures_page,
    messages_page,
    named_tool_page,
    sessions_page,
)
from mcp_app.interface.text import UNNAMED_CLIENT, marked, visible
from mcp_app.message_log import traffic
from mcp_app.message_log.counts.figures import TOOL, Named, named
from mcp_app.message_log.counts.limited_figures import called_by, called_over_time
from mcp_app.message_log.counts.refusals import RefusalCount
from mcp_app.message_log.pages import ANSWERED, FAILED
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.rollups import MOST_TOOLS
from mcp_app.message_log.traffic import PERIODS, Period
from mcp_app.protocol.messages.methods import OTHER

# The search that finds the calls counted as OTHER. They include calls of tools that were not offered to the
# caller.
NO_TOOL: Final = 'tool:""'
UNKNOWN_TOOLS: Final = "Other tools"
NOT_NAMED: Final = f"unknown or not permitted, or beyond the first {MOST_TOOLS} tools of an hour"
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
    """The content of the page: links to its views, the table, and the workers that the user may view.

    ``pages`` are titles and addresses of pages about the tool or the caller whose calls are counted.
    """

    at: datetime
    since: datetime
    view: View
    periods: list[ViewChoice]
    views: list[ViewChoice]
    pages: list[tuple[str, str]]
    table: Table
    page: Page[FigureRow]
    heads: list[Head]
    csv_url: str
    more: int
    workers: list[WorkerRow]
    refusals: list[tuple[RefusalCount, str]]
    whole: bool
    asked_since: datetime

    @property
    def lines(self) -> list[tuple[FigureRow, list[Cell]]]:
        """The rows on the current page of the table, each with its cells.

        The CSV file contains all rows.
        """
        return lines(self.page)

    @property
    def tool(self) -> str:
        """The name of the tool whose calls are counted, or "" for calls of any tool."""
        return self.view.tool


def figures(request: HttpRequest) -> Figures:
    """Return the statistics that the query string requests."""
    now = clock.utcnow()
    period, view = asked_period(request, now), asked_view(request)
    order = order_of(request.GET.get("sort", "-name" if view.by == TIME else ""))
    query = {**query_of(period), "by": view.by, **view.query}
    begun = _started_calls(request, view, period, now)
    if view.by == TIME:
        read = _over_time(view, period, now)
    else:
        read = _by_name(request.user, view, period, now, begun)
    table = Table(view.title, view.first, sorted_rows(read.rows, order), order)
    return Figures(
        min(read.until or now, now),
        read.since,
        view,
        _periods(period, {"by": view.by, **view.query}),
        [
            _choice(title, {**query, "by": name}, name == view.by)
            for name, title in VIEWS.items()
            # One tool has no figures by tool. The link leads to those of all tools.
            if name != view.kind or name == TOOL
        ],
        _pages(request.user, view),
        table,
        Paginator(table.rows, PAGE).get_page(request.GET.get("p")),
        heads(table, query),
        "?" + urlencode({**query, "sort": order, "format": "csv"}),
        read.more,
        workers(begun) if request.user.has_perm("mcp_app.view_call") else [],
        refusals_of(read.since, period.until, view.tool) if view.kind in ("", TOOL) else [],
        read.whole,
        period.starts(now)[0],
    )


def _pages(user: Any, view: View) -> list[tuple[str, str]]:
    """Return titles and addresses of pages about the tool or the caller whose calls are counted."""
    found: list[tuple[str, str | None]] = []
    if view.kind == TOOL:
        found = [("View tool", named_tool_page(user, view.name))]
    elif view.kind == PRINCIPAL:
        pages = caller_pages(user, view.name)
        found = [("View user", pages.user), ("View key", pages.api_key), ("View client", pages.client)]
    if view.kind:
        found.append(("Log", messages_page(user, **view.log)))
    if view.kind in (CLIENT, PRINCIPAL):
        found.append(("Sessions", sessions_page(user, q=view.name)))
    return [(title, url) for title, url in found if url]


def _choice(title: str, query: dict[str, str], chosen: bool) -> ViewChoice:
    return ViewChoice(title, "?" + urlencode(query), chosen)


def _periods(period: Period, query: dict[str, str]) -> list[ViewChoice]:
    """Return links to the periods that end now, and to a period that the user selected on a chart."""
    found = [*PERIODS.values(), *([] if period.until is None else [period])]
    return [_choice(each.title, {**query_of(each), **query}, each == period) for each in found]


def _started_calls(request: HttpRequest, view: View, period: Period, now: datetime) -> list[StartedCall]:
    """Return the background calls that started in the period, or [] if the user may not view calls."""
    if not request.user.has_perm("mcp_app.view_call"):
        return []
    clients = CLIENT in (view.by, view.kind)
    found = started_calls(period.starts(now)[0], period.until, clients=clients)
    return [call for call in found if not view.kind or _name_in(call, view.kind) == view.name]


class Read(NamedTuple):
    """The rows of a view, and the period that they sum. If ``until`` is None, it ends now.

    ``more`` is the number of names without a row. ``whole`` is True if the rows cover the whole period.
    """

    since: datetime
    until: datetime | None
    rows: list[FigureRow]
    more: int = 0
    whole: bool = True


def _over_time(view: View, period: Period, now: datetime) -> Read:
    whole = True
    if view.kind in (CLIENT, PRINCIPAL):
        points, whole = called_over_time(view.condition(period.starts(now)[0]), period, now)
    else:
        points = traffic.over_time(period, now, view.tool)
    rows = []
    for at, calls in points:
        if calls.all:
            last = at + timedelta(seconds=period.span - 1)
            urls = _urls({"since": in_utc(at), "until": in_utc(last), **view.log})
            begin_and_end = (at, at + timedelta(seconds=period.span))
            rows.append(FigureRow(_written(at, period), calls, urls=urls, time=begin_and_end))
    return Read(points[0][0], period.until, rows, whole=whole)


def _written(at: datetime, period: Period) -> str:
    return timezone.localtime(at).strftime("%H:%M" if period.span == MINUTE else "%Y-%m-%d %H:%M")


def _by_name(user: Any, view: View, period: Period, now: datetime, begun: Iterable[StartedCall]) -> Read:
    if view.kind:
        found, whole = called_by(view.by, view.condition(period.starts(now)[0]), period, now)
    else:
        found, whole = named(view.by, period, now), True
    waited, shown = _waited(view.by, begun), _shown(user, view, period, found)
    rows = []
    for name, calls in found.calls:
        # There is no link for "other" and for callers without a name, because the log cannot be filtered by
        # them.
        time = {"since": in_utc(found.since), **end_of_log(found.until)}
        urls = _urls({BY[view.by][1]: name, **view.log, **time}) if name not in ("", OTHER) else {}
        if name == OTHER and view.by == TOOL:
            urls = _urls({"q": NO_TOOL, **view.log, **time})
        label, html, note = shown[name]
        wait = share(waited.get(name, []), WAITED)
        rows.append(FigureRow(label, calls, wait, note, urls, html))
    return Read(found.since, found.until, rows, found.more, whole)


Label = tuple[str, SafeString, str]


def _shown(user: Any, view: View, period: Period, found: Named) -> dict[str, Label]:
    """Map the names in a view to their text, their HTML with links, and their note.

    The tooltip of a user is the principal's key, by which the log can be searched.
    """
    names = [name for name, _ in found.calls]
    shown: dict[str, Label] = {}
    if view.by == PRINCIPAL:
        for key, caller in caller_names(names).items():
            pages = linked_name(user, key, caller)
            shown[key] = str(caller), format_html('<span title="{}">{}</span>', marked(key), pages), ""
    else:
        for name in names:
            limit = {} if view.kind else {view.by: name}
            url = figures_page(user, **query_of(period), **limit) if limit and name else None
            label = name or UNNAMED_CLIENT
            shown[name] = label, linked(label, url), ""
    if OTHER in shown:
        label, note = _others(view.by)
        shown[OTHER] = label, visible(label), note
    return shown


def _others(by: str) -> tuple[str, str]:
    """Return the name and the note for the row of calls counted as OTHER."""
    return (UNKNOWN_TOOLS, NOT_NAMED) if by == TOOL else (OTHER, "more together")


def _waited(by: str, begun: Iterable[StartedCall]) -> dict[str, list[float]]:
    """Return the times that background calls waited in the queue, in seconds, grouped by name."""
    found: dict[str, list[float]] = defaultdict(list)
    for call in begun:
        found[_name_in(call, by)].append(call.waited)
    return found


def _name_in(call: StartedCall, kind: str) -> str:
    return {TOOL: call.tool, PRINCIPAL: call.principal}.get(kind, call.client)


def _urls(narrowed: dict[str, str]) -> dict[str, str]:
    page = f"{reverse('admin:mcp_app_message_changelist')}?{urlencode({'method': 'tools/call', **narrowed})}"
    outcomes = {"calls": ANSWERED, "failed": FAILED, "rate": FAILED}
    outcomes |= {name: name for name in ("refused", "cancelled")}
    return {key: f"{page}&outcome={outcome}" for key, outcome in outcomes.items()}
