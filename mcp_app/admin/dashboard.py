"""The dashboard on the admin's first page: numbers, charts and open tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app import conf
from mcp_app.admin.calls.queues import AWAY, Box, box
from mcp_app.admin.charts import Chart, bars, ceiling, line, touches
from mcp_app.admin.figures.busiest import ClientRow, busiest_clients, spike_reason
from mcp_app.admin.figures.page import NO_TOOL, NOT_NAMED, UNKNOWN_TOOLS
from mcp_app.admin.figures.period import asked_period, chosen_url, end_of_log, query_of
from mcp_app.admin.markup import in_utc, number_text, percentile_text, rate_text, seconds_text, share_text
from mcp_app.admin.verdict import Reason, ServerStatus, first_steps, tasks_of
from mcp_app.database import clock
from mcp_app.doctor import code
from mcp_app.interface.links import figures_page
from mcp_app.interface.text import marked
from mcp_app.message_log import traffic
from mcp_app.message_log.pages import ANSWERED, FAILED
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.traffic import PERIODS, CallFigures, Period, Traffic
from mcp_app.models import Session
from mcp_app.protocol.messages.methods import OTHER
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.server_facts import RedisServerView
from mcp_app.streams.stores.message_queue import SyncMessageQueue

MOST_TOOLS = 10
MIB = 1024 * 1024
# A task about failed calls appears from this number of failures and this fraction of all calls.
MANY_FAILED, FAILED_SHARE = 5, 0.05
# The log counts as late if its newest line waits for more than this many seconds.
LATE_SECONDS = 10.0

LOG_IS_OFF: Final = "The log is disabled (MESSAGE_LOG), so calls are not counted."
NO_LOG: Final = "Without Redis, nothing is logged. Start the server with manage.py up, or set REDIS_URL."
NO_WORKER: Final = "No worker was active in the last 15 seconds, so the log is not written. Start a worker."
BEHIND: Final = "The log is delayed, so these figures are outdated."
NEVER: Final = "No messages yet. Connect a client and call a tool. The call appears here within seconds."
QUIET: Final = "No calls in this period."
ORPHANED: Final = "Background calls wait in a queue without a worker. Start a worker with --queues."
NOT_SERVED: Final = "The edited code cannot be loaded, so the previous code is served."
NEARLY_FULL: Final = "Redis uses more than 80 % of its memory. New background calls and sessions are refused."


@dataclass(frozen=True, slots=True)
class Tile:
    """A number with a label and a link to the page that explains it."""

    name: str
    value: str
    note: str = ""
    tone: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class ToolRow:
    """The calls of a tool.

    ``url`` leads to its callers, and ``messages_url`` to the counted messages. ``note`` explains a row that
    combines the calls of several tools.
    """

    name: str
    url: str
    messages_url: str
    calls: int
    errors: str
    p50: str
    p95: str
    note: str = ""

    @property
    def counted(self) -> str:
        """The number of calls with thousands separators."""
        return f"{self.calls:,}"


@dataclass(slots=True)
class Dashboard:
    """The dashboard for one user.

    Parts that the user may not view are empty.
    """

    period: Period
    at: datetime
    url: str
    verdict: ServerStatus = field(default_factory=ServerStatus)
    first_steps: list[Reason] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tools: list[ToolRow] = field(default_factory=list)
    more_tools: int = 0
    clients: list[ClientRow] = field(default_factory=list)
    reads_messages: bool = False
    periods: list[Period] = field(default_factory=lambda: list(PERIODS.values()))

    @property
    def figures_url(self) -> str:
        """Return the address of the statistics page for the same period."""
        return f"{reverse('admin:mcp_app_message_figures')}?{urlencode(query_of(self.period))}"

    @property
    def chosen_url(self) -> str:
        """The address of the dashboard for the same period, if the user selected the period on a chart."""
        return chosen_url(self.period)


def may_see(request: HttpRequest) -> bool:
    """Return True if the user may view messages or calls."""
    return request.user.has_perm("mcp_app.view_message") or request.user.has_perm("mcp_app.view_call")


def dashboard(request: HttpRequest) -> Dashboard:
    """Return the dashboard for the period in the request."""
    now = clock.utcnow()
    period = asked_period(request, now)
    url = f"{reverse('admin:mcp_app_message_dashboard')}?{urlencode(query_of(period))}"
    shown = Dashboard(period, now, url)
    state = box()
    if request.user.has_perm("mcp_app.view_message"):
        shown.reads_messages = True
        _show_traffic(shown, request.user, traffic.read(period, now, MOST_TOOLS))
        if period.until is None and (spike := spike_reason(request.user, now)):
            shown.verdict.tasks.insert(0, spike)
    if request.user.has_perm("mcp_app.view_call"):
        _show_work(shown, state)
    if request.user.has_perm("mcp_app.view_session"):
        _show_sessions(shown)
    shown.clients = busiest_clients(request.user, period, now)
    _show_stores(shown, state)
    if fault := code.fault():
        shown.verdict.faults.insert(0, Reason(f"{NOT_SERVED} {marked(fault)}"))
    shown.verdict.tasks += tasks_of(request)
    shown.first_steps = first_steps(request)
    return shown


def _show_traffic(shown: Dashboard, user: Any, found: Traffic) -> None:
    total = found.total
    calls = f"{total.all:,} {'call' if total.all == 1 else 'calls'}"
    errors = f"{total.failed:,} failed · {total.refused:,} refused"
    title, rate = "Calls per minute", total.all / found.minutes
    url = _messages(found, outcome=ANSWERED)
    if found.period.until is None:
        title = "Calls in the last minute"
        url = _messages(found, outcome=ANSWERED, since=in_utc(shown.at - timedelta(minutes=1)))
        rate = round(traffic.current_rate(shown.at))
        calls = f"{total.all:,} in the {found.period.title.lower()}"
    shown.tiles += [
        Tile(title, number_text(rate), calls, url=url),
        Tile("Error rate", share_text(total.error_rate), errors, "bad" if total.failed else "",
             _messages(found, outcome=FAILED)),
        Tile("p50 duration", percentile_text(total.p50), f"p95 {percentile_text(total.p95)}",
             url=shown.figures_url),
    ]  # fmt: skip
    if _is_much(total.failed, total.all):
        shown.verdict.tasks += _failing(found, shown.at)
    if total.all:
        shown.charts = [_calls_chart(found, shown.at), _errors_chart(found), _duration_chart(found)]
    elif conf.get().message_log and conf.get().redis_url:
        shown.notes.append(("", QUIET if traffic.began(shown.at) else NEVER))
    shown.tools = [_tool_row(user, found, name, calls) for name, calls in found.tools]
    shown.more_tools = found.more_tools


def _is_much(failed: int, calls: int) -> bool:
    return failed >= MANY_FAILED and failed >= calls * FAILED_SHARE


def _failing(found: Traffic, now: datetime) -> Iterator[Reason]:
    """Yield a task if many calls failed unexpectedly: not by an error that the tool itself reports.

    It names the tool that causes more than half of these failures.
    """
    total, mistakes = found.total, traffic.mistakes_in(found.period, now)
    failed = total.failed - mistakes.get("", 0)
    if not _is_much(failed, total.all):
        return
    text = f"{share_text(failed / total.all)} of calls failed unexpectedly: {failed:,} of {total.all:,}"
    faults = {name: calls.failed - mistakes.get(name, 0) for name, calls in found.tools if name != OTHER}
    text += "".join(f", most of them in {marked(name)}" for name, each in faults.items() if each * 2 > failed)
    yield Reason(f"{text} ({found.period.title.lower()})", reverse("admin:mcp_app_message_errors"))


def _messages(found: Traffic, **narrowed: str) -> str:
    """Return the address of the log of tool calls in the period, or since ``since``."""
    since = in_utc(found.points[0][0])
    asked = {"method": "tools/call", "since": since, **narrowed, **end_of_log(found.period.until)}
    return f"{reverse('admin:mcp_app_message_changelist')}?{urlencode(asked)}"


def _tool_row(user: Any, found: Traffic, name: str, calls: CallFigures) -> ToolRow:
    # Calls counted as "other" have several names, by which the log cannot be filtered.
    figures = (
        calls.all, share_text(calls.error_rate), percentile_text(calls.p50), percentile_text(calls.p95),
    )  # fmt: skip
    if name == OTHER:
        messages = _messages(found, outcome=ANSWERED, q=NO_TOOL)
        return ToolRow(UNKNOWN_TOOLS, "", messages, *figures, note=NOT_NAMED)
    callers = figures_page(user, **query_of(found.period), tool=name) or ""
    return ToolRow(name, callers, _messages(found, outcome=ANSWERED, target=name), *figures)


def _show_work(shown: Dashboard, state: Box) -> None:
    running = sum(queue.running for queue in state.queues)
    waiting = sum(queue.waiting for queue in state.queues)
    orphaned = any(queue.orphaned for queue in state.queues)
    url = f"{reverse('admin:mcp_app_call_changelist')}?state=open"
    unapproved = sum(queue.unapproved for queue in state.queues)
    note = f"{waiting:,} queued" + (f", {unapproved:,} waiting for approval" if unapproved else "")
    note += ", queue without a worker" if orphaned else ""
    shown.tiles.append(Tile("Background calls running", f"{running:,}", note, "bad" if orphaned else "", url))
    # If there are no workers at all, another task already reports it.
    if orphaned and state.workers:
        shown.verdict.faults.append(Reason(ORPHANED, url))


def _show_sessions(shown: Dashboard) -> None:
    seconds = conf.get().session_idle_seconds
    since = clock.utcnow() - timedelta(seconds=seconds)
    live = Session.objects.filter(ended_at=None, last_seen_at__gte=since).count()
    url = f"{reverse('admin:mcp_app_session_changelist')}?state=open"
    # Clients of 2026-07-28 never say that they are gone.
    note = f"used in the last {round(seconds / 60):,} min"
    shown.tiles.append(Tile("Open sessions", f"{live:,}", note, url=url))


def _show_stores(shown: Dashboard, state: Box) -> None:
    """Add the state of the workers, of Redis and of the log queue.

    After the first failure of Redis, the remaining steps are skipped.
    """
    settings = conf.get()
    if not settings.message_log:
        shown.notes.append(("warn", LOG_IS_OFF))
    if not settings.redis_url:
        shown.notes.append(("warn", NO_LOG))
        return
    if state.note:
        shown.verdict.faults.append(Reason(state.note))
        return
    names = ", ".join(marked(worker.name) for worker in state.workers[:3])
    workers = f"{shown.figures_url}#mcp-workers-title" if shown.reads_messages else ""
    tone = "" if state.workers else "bad"
    shown.tiles.append(Tile("Workers", str(len(state.workers)), names, tone, workers))
    try:
        facts = RedisServerView(settings.redis_url).facts()
        waiting, seconds = SyncMessageQueue.connect().waiting()
    except StreamsUnavailable:
        shown.verdict.faults.append(Reason(AWAY))
        return
    memory = _memory(facts.used_memory, facts.max_memory)
    shown.tiles.append(memory)
    if memory.tone:
        shown.verdict.faults.append(Reason(NEARLY_FULL))
    late = seconds >= LATE_SECONDS
    note = f"{waiting:,} pending {'batch' if waiting == 1 else 'batches'}" if waiting else "up to date"
    delay = seconds_text(seconds)
    if not (state.workers or waiting):
        delay, note = "–", "no worker writes the log"
    shown.tiles.append(Tile("Message log delay", delay, note, "" if state.workers and not late else "bad"))
    if not state.workers:
        shown.verdict.faults.append(Reason(NO_WORKER))
    elif late:
        shown.verdict.faults.append(Reason(BEHIND))


def _memory(used: int | None, limit: int | None) -> Tile:
    if used is None:
        return Tile("Redis memory", "?", "not reported")
    note = f"of {limit / MIB:,.0f} MiB" if limit else "without a limit"
    return Tile("Redis memory", f"{used / MIB:,.1f} MiB", note, "bad" if limit and used > limit * 0.8 else "")


def _chart(found: Traffic, name: str, title: str, summary: str, top: str, **drawn: Any) -> Chart:
    """Return a chart with the parts that all charts share: axis labels, table rows and tooltips per point."""
    written = "%H:%M" if found.period.span == MINUTE else "%Y-%m-%d %H:%M"
    times = [timezone.localtime(at).strftime(written) for at, _ in found.points]
    cells: list[list[str]] = drawn.pop("cells")
    columns: list[str] = drawn.pop("columns")
    told = [
        ", ".join([time, *(f"{text} {column.lower()}" for column, text in zip(columns, row, strict=True))])
        for time, row in zip(times, cells, strict=True)
    ]
    rows = [[time, *row] for time, row in zip(times, cells, strict=True)]
    return Chart(
        name=name, title=title, summary=summary, top=top, first=times[0], last=times[-1],
        touches=touches(told), columns=["Time", *columns], rows=rows,
        begins=int(found.points[0][0].timestamp()), span=found.period.span,
        bars=drawn.pop("bars", []), lines=drawn.pop("lines", []), legend=drawn.pop("legend"),
    )  # fmt: skip


# Tone, name and number of calls of each outcome, from the bottom of the chart to its top.
_OUTCOMES: Final[tuple[tuple[str, str, Callable[[CallFigures], int]], ...]] = (
    ("good", "succeeded", lambda calls: calls.ok),
    ("info", "refused", lambda calls: calls.refused),
    ("warn", "cancelled", lambda calls: calls.cancelled),
    ("bad", "failed", lambda calls: calls.failed),
)


def _calls_chart(found: Traffic, now: datetime) -> Chart:
    def rate(part: Callable[[CallFigures], int]) -> list[float]:
        return [
            found.per_minute(at, calls, now) * part(calls) / calls.all if calls.all else 0.0
            for at, calls in found.points
        ]

    rates = [rate(part) for _, _, part in _OUTCOMES]
    highest = max(map(sum, zip(*rates, strict=True)))
    top = ceiling(highest)
    return _chart(
        found, "calls", "Calls per minute", f"At most {number_text(highest)} a minute.", number_text(top),
        bars=bars([(tone, each) for (tone, _, _), each in zip(_OUTCOMES, rates, strict=True)], top),
        legend=[(tone, name) for tone, name, _ in _OUTCOMES],
        columns=[f"{name.capitalize()} per minute" for _, name, _ in _OUTCOMES],
        cells=[[rate_text(each) for each in row] for row in zip(*rates, strict=True)],
    )  # fmt: skip


def _errors_chart(found: Traffic) -> Chart:
    rates = [calls.error_rate for _, calls in found.points]
    highest = max(rate or 0.0 for rate in rates)
    top = min(ceiling(highest), 1.0) if highest else 0.01
    return _chart(
        found, "errors", "Error rate", f"At most {share_text(highest)}.", share_text(top),
        lines=line("bad", rates, top), legend=[("bad", "error rate")],
        columns=["Error rate"], cells=[[share_text(rate)] for rate in rates],
    )  # fmt: skip


def _duration_chart(found: Traffic) -> Chart:
    half, most = [calls.p50 for _, calls in found.points], [calls.p95 for _, calls in found.points]
    highest = max((each for each in most if each is not None), default=0.0)
    top = ceiling(highest)
    return _chart(
        found, "duration", "Duration", f"p95 at most {percentile_text(highest)}.", seconds_text(top),
        lines=[*line("info", most, top), *line("good", half, top)],
        legend=[("good", "p50"), ("info", "p95")],
        columns=["p50", "p95"],
        cells=[[percentile_text(a), percentile_text(b)] for a, b in zip(half, most, strict=True)],
    )  # fmt: skip
