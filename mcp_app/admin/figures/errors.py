"""Pages of errors: the list of error groups with a week's curve each, and the page of a group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app.admin.charts import Chart, bars, ceiling, touches
from mcp_app.admin.figures.page import ViewChoice
from mcp_app.admin.markup import number_text
from mcp_app.admin.timeline import TimelineRow, row
from mcp_app.database import clock
from mcp_app.message_log.counts.error_groups import LAST_SEEN, messages_of, new_since
from mcp_app.message_log.rollups import HOUR
from mcp_app.models import ErrorGroup, ErrorHour, Message

NEW: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
BIN: Final = timedelta(hours=6)
PAGE: Final = 50
# A higher limit than the maximum number of groups can fill.
LAST_PAGE: Final = 100
MOST_MESSAGES: Final = 10
LONGEST_EXAMPLE: Final = 200
ORDERS: Final = {
    "": ("Last seen", LAST_SEEN),
    "count": ("Most often", ("-count", "pk")),
    "first": ("First seen", ("-first_at", "pk")),
}


@dataclass(frozen=True, slots=True)
class Group:
    """An error group, as the list shows it."""

    row: ErrorGroup
    url: str
    is_new: bool
    curve: str
    in_week: int

    @property
    def name(self) -> str:
        """The name of the tool that failed, or of the method if no tool was called."""
        return self.row.tool or self.row.method

    @property
    def count(self) -> str:
        """The number of errors with thousands separators."""
        return f"{self.row.count:,}"

    @property
    def example(self) -> str:
        """The first line of the newest error, or "" if it equals the group's text."""
        said = self.row.example.strip().partition("\n")[0][:LONGEST_EXAMPLE]
        return said if self.row.words and said != self.row.words else ""

    @property
    def outcome(self) -> str:
        """The outcome in the form that the log shows."""
        return self.row.outcome.replace("_", " ")


@dataclass(frozen=True, slots=True)
class ErrorList:
    """The list of error groups, with links to other filters, orders and pages."""

    groups: list[Group]
    views: list[ViewChoice]
    orders: list[ViewChoice]
    only_new: bool
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

    By default, it contains only the groups first seen in the last day.
    """
    now = clock.utcnow()
    only_new, order = request.GET.get("show") != "all", request.GET.get("order", "")
    order = order if order in ORDERS else ""
    show, page = "new" if only_new else "all", _page(request.GET.get("p", ""))
    rows = new_since(now - NEW) if only_new else ErrorGroup.objects.all()
    found = list(rows.order_by(*ORDERS[order][1])[(page - 1) * PAGE : page * PAGE + 1])
    shown = found[:PAGE]
    hours = _hours([each.pk for each in shown], now)
    return ErrorList(
        [_group(each, hours[each.pk], now) for each in shown],
        [_choice(title, name, order, name == show)
         for name, title in (("new", "New since yesterday"), ("all", "All"))],
        [_choice(title, show, name, name == order) for name, (title, _) in ORDERS.items()],
        only_new,
        earlier=_url(show, order, page - 1) if page > 1 else "",
        later=_url(show, order, page + 1) if len(found) > PAGE else "",
    )  # fmt: skip


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
    return Group(group, url, group.first_at >= now - NEW, curve, sum(bins))


def error_page(group: ErrorGroup) -> ErrorPage:
    """Return the data for the page of a group."""
    now = clock.utcnow()
    hours = _hours([group.pk], now)[group.pk]
    ids = messages_of(group, MOST_MESSAGES)
    found = Message.objects.in_bulk(ids)
    asked = {"method": group.method, "outcome": group.outcome, "target": group.tool}
    log = f"{reverse('admin:mcp_app_message_changelist')}?{urlencode({k: v for k, v in asked.items() if v})}"
    messages = [row(found[pk]) for pk in ids if pk in found]
    return ErrorPage(_group(group, hours, now), _chart(hours, now, log), messages, log)


def _chart(hours: dict[datetime, int], now: datetime, log: str) -> Chart:
    """Return a chart of the errors per hour in the last week."""
    last = now.replace(minute=0, second=0, microsecond=0)
    times = [last - timedelta(hours=back) for back in range(WEEK // timedelta(hours=1) - 1, -1, -1)]
    counts = [hours.get(at, 0) for at in times]
    written = [timezone.localtime(at).strftime("%Y-%m-%d %H:%M") for at in times]
    top = ceiling(max(counts))
    return Chart(
        name="error", title="Errors an hour", summary=f"At most {max(counts):,} in an hour.",
        top=number_text(top),
        first=written[0], last=written[-1], legend=[("bad", "errors")], bars=bars([("bad", counts)], top),
        lines=[], touches=touches([f"{at}, {count}" for at, count in zip(written, counts, strict=True)]),
        columns=["From", "Errors"],
        rows=[[at, str(count)] for at, count in zip(written, counts, strict=True) if count],
        begins=int(times[0].timestamp()), span=HOUR, url=f"{log}&",
    )  # fmt: skip
