"""Pages of errors: the list of error groups with a week's curve each, and the page of a group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app.admin.charts import Chart, bars, ceiling, touches
from mcp_app.admin.figures.page import ViewChoice
from mcp_app.admin.figures.triage import STATES
from mcp_app.admin.markup import number_text
from mcp_app.admin.timeline import Failure, TimelineRow, dated, row
from mcp_app.database import clock
from mcp_app.interface.results import Result, result_of
from mcp_app.message_log.counts.error_groups import LAST_SEEN, messages_of, new_since
from mcp_app.message_log.rollups import HOUR
from mcp_app.message_log.triage import NEW, muted, state_of, unresolved
from mcp_app.models import ErrorGroup, ErrorHour, Message, Triage
from mcp_app.observability.incidents import StoredException

WEEK: Final = timedelta(days=7)
BIN: Final = timedelta(hours=6)
PAGE: Final = 50
# A higher limit than the maximum number of groups can fill.
LAST_PAGE: Final = 100
MOST_MESSAGES: Final = 10
LONGEST_EXAMPLE: Final = 200
VIEWS: Final = {
    "": ("Unresolved", "No unresolved errors."),
    "new": ("New", "No errors were first seen in the last 24 hours."),
    "mine": ("Assigned to you", "No unresolved errors are assigned to you."),
    "muted": ("Muted", "No muted errors."),
    "resolved": ("Resolved", "No resolved errors."),
    "all": ("All", "The log has no errors."),
}
ORDERS: Final = {
    "": ("Last seen", ("-is_fault", *LAST_SEEN)),
    "count": ("Most often", ("-count", "pk")),
    "first": ("First seen", ("-first_at", "pk")),
}


@dataclass(frozen=True, slots=True)
class Group:
    """An error group, as the list shows it."""

    row: ErrorGroup
    url: str
    is_new: bool
    state: str
    curve: str
    in_week: int

    @property
    def name(self) -> str:
        """The name of the tool that failed, or of the method, or the words for a tool that is not known."""
        if self.row.method == "tools/call" and not self.row.tool:
            return "Unknown tool"
        return self.row.tool or self.row.method

    @property
    def count(self) -> str:
        """The number of errors with thousands separators."""
        return f"{self.row.count:,}"

    @property
    def label(self) -> tuple[str, str] | None:
        """The label of the state and its tone, or None for an open error."""
        return STATES.get(self.state)

    @property
    def raised(self) -> StoredException | None:
        """The newest exception of a group of unexpected exceptions, or None."""
        return self.row.raised

    @property
    def origin(self) -> str:
        """The position in the code at which the newest exception was raised, or ""."""
        at = self.raised.origin if self.raised else None
        return at.where if at else ""

    @property
    def example(self) -> str:
        """The first line of the newest error, or "" if it equals the group's text."""
        newest = self.raised.message if self.raised else self.row.example
        said = newest.strip().partition("\n")[0][:LONGEST_EXAMPLE]
        return said if self.row.words and said != self.row.words else ""

    @property
    def failure(self) -> Failure | None:
        """The newest exception for display, or None."""
        return Failure.of(self.row.example, self.row.exception) if self.row.exception else None

    @property
    def result(self) -> Result | None:
        """The result of its requests, as the log shows it."""
        return result_of(self.row.outcome)


@dataclass(frozen=True, slots=True)
class ErrorList:
    """The list of error groups, with links to other filters, orders and pages."""

    groups: list[Group]
    views: list[ViewChoice]
    orders: list[ViewChoice]
    empty: str
    earlier: str = ""
    later: str = ""


@dataclass(frozen=True, slots=True)
class ErrorPage:
    """The page of a group: its summary, its errors over time and its newest messages."""

    group: Group
    chart: Chart
    messages: list[TimelineRow]
    log_url: str


def error_list(request: HttpRequest) -> ErrorList:
    """Return a page of the list of error groups, in the requested order.

    By default, it contains the groups that are neither muted nor resolved, faults first.
    """
    now = clock.utcnow()
    show, order = request.GET.get("show", ""), request.GET.get("order", "")
    show, order = show if show in VIEWS else "", order if order in ORDERS else ""
    page = _page(request.GET.get("p", ""))
    rows = _shown(show, request.user, now).select_related("assignee")
    found = list(rows.order_by(*ORDERS[order][1])[(page - 1) * PAGE : page * PAGE + 1])
    shown = found[:PAGE]
    hours = _hours([each.pk for each in shown], now)
    return ErrorList(
        [_group(each, hours[each.pk], now) for each in shown],
        [_choice(title, name, order, name == show) for name, (title, _) in VIEWS.items()],
        [_choice(title, show, name, name == order) for name, (title, _) in ORDERS.items()],
        VIEWS[show][1],
        earlier=_url(show, order, page - 1) if page > 1 else "",
        later=_url(show, order, page + 1) if len(found) > PAGE else "",
    )  # fmt: skip


def _shown(show: str, user: Any, now: datetime) -> QuerySet[ErrorGroup]:
    """Return the error groups of one of the VIEWS."""
    match show:
        case "new":
            return new_since(now - NEW)
        case "muted":
            return muted()
        case "resolved":
            return ErrorGroup.objects.filter(triage=Triage.RESOLVED)
        case "mine":
            return unresolved().filter(assignee=user)
        case "all":
            return ErrorGroup.objects.all()
    return unresolved()


def _page(asked: str) -> int:
    number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 4 else 1
    return min(max(number, 1), LAST_PAGE)


def _choice(title: str, show: str, order: str, chosen: bool) -> ViewChoice:
    return ViewChoice(title, _url(show, order), chosen)


def _url(show: str, order: str, page: int = 1) -> str:
    query = {"show": show, "order": order, **({"p": str(page)} if page > 1 else {})}
    return "?" + urlencode(query)


def _hours(digests: list[str], now: datetime) -> dict[str, dict[datetime, int]]:
    """Return the hourly error counts of each group in the last week."""
    rows = ErrorHour.objects.filter(group__in=digests, at__gte=now - WEEK).order_by()
    found: dict[str, dict[datetime, int]] = defaultdict(dict)
    for digest, at, count in rows.values_list("group_id", "at", "count"):
        found[digest][at] = count
    return found


def _group(group: ErrorGroup, hours: dict[datetime, int], now: datetime) -> Group:
    bins = [0] * (WEEK // BIN)
    for at, count in hours.items():
        bins[min(max(int((at - now + WEEK) / BIN), 0), len(bins) - 1)] += count
    drawn = bars([("bad", bins)], ceiling(max(bins)))
    curve = drawn[0].path if drawn else ""
    url = reverse("admin:mcp_app_message_error", args=[group.pk])
    return Group(group, url, group.first_at >= now - NEW, state_of(group), curve, sum(bins))


def error_page(group: ErrorGroup) -> ErrorPage:
    """Return the data for the page of a group."""
    now = clock.utcnow()
    hours = _hours([group.pk], now)[group.pk]
    ids = messages_of(group, MOST_MESSAGES)
    found = Message.objects.in_bulk(ids)
    asked = {"method": group.method, "outcome": group.outcome, "target": group.tool}
    log = f"{reverse('admin:mcp_app_message_changelist')}?{urlencode({k: v for k, v in asked.items() if v})}"
    messages = dated([row(found[pk]) for pk in ids if pk in found])
    return ErrorPage(_group(group, hours, now), _chart(hours, now, log), messages, log)


def _chart(hours: dict[datetime, int], now: datetime, log: str) -> Chart:
    """Return a chart of the errors per hour in the last week."""
    last = now.replace(minute=0, second=0, microsecond=0)
    times = [last - timedelta(hours=back) for back in range(WEEK // timedelta(hours=1) - 1, -1, -1)]
    counts = [hours.get(at, 0) for at in times]
    written = [timezone.localtime(at).strftime("%Y-%m-%d %H:%M") for at in times]
    top = ceiling(max(counts))
    return Chart(
        name="error", title="Errors per hour", summary=f"At most {max(counts):,} in an hour.",
        top=number_text(top),
        first=written[0], last=written[-1], legend=[("bad", "errors")], bars=bars([("bad", counts)], top),
        lines=[], touches=touches([f"{at}, {count}" for at, count in zip(written, counts, strict=True)]),
        columns=["Time", "Errors"],
        rows=[[at, str(count)] for at, count in zip(written, counts, strict=True) if count],
        begins=int(times[0].timestamp()), span=HOUR, url=f"{log}&",
    )  # fmt: skip
