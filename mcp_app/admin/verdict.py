"""The status on the admin's first page: faults of the installation, and tasks for the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import F, Value
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.http import urlencode

from mcp_app.admin.calls.approval import waiting_count
from mcp_app.auth.api_keys import ENDS_SOON, KEY_ENDS_WITHIN, ending_keys
from mcp_app.catalogue.changes.pending_drafts import DRAFTED
from mcp_app.catalogue.changes.services import may_publish
from mcp_app.database import clock
from mcp_app.execution.stored.stuck_calls import WAITS_LONG, long_waiting_calls, lost_calls
from mcp_app.interface.text import marked
from mcp_app.message_log.counts.error_groups import LAST_SEEN
from mcp_app.message_log.triage import needing_attention, state_of
from mcp_app.models import Draft, ErrorGroup, Prompt, Resource, ResourceTemplate, Session, Tool, Upstream
from mcp_app.upstreams import health

# Maximum number of rows counted, because the first page must be fast.
MOST_COUNTED: Final = 1_000
# The first word about an error in these states. All others are new.
ERROR_STATES: Final = {"regressed": "Happened again", "worse": "Worsened"}
# Maximum number of new errors that are listed, and maximum length of the example of each.
NAMED_ERRORS: Final = 3
# Maximum number of upstream servers whose last outcome is read.
MOST_UPSTREAMS: Final = 100
SAID: Final = 120
NEW_LINE: Final = "\n"


@dataclass(frozen=True, slots=True)
class Reason:
    """A fault or a task, with the address of the page where the user can resolve it."""

    text: str
    url: str = ""


@dataclass(slots=True)
class ServerStatus:
    """The status. ``faults`` keep the server from working. ``tasks`` are those that the user can complete.

    Tasks are ordered by severity: failures of tools first, then waiting calls, then maintenance.
    """

    faults: list[Reason] = field(default_factory=list)
    tasks: list[Reason] = field(default_factory=list)

    @property
    def word(self) -> str:
        """The status as a short phrase."""
        if self.faults:
            return "Degraded"
        return "Running" if self.tasks else "All systems operational"

    @property
    def sentence(self) -> str:
        """The sentence that introduces the faults and tasks."""
        if self.faults:
            return "Some functions do not work:"
        if self.tasks:
            return _counted(len(self.tasks), "item needs", "items need") + " your attention:"
        return "Nothing needs your attention."

    @property
    def tone(self) -> str:
        """The tone of the status: ``bad``, ``warn`` or ``good``."""
        if self.faults:
            return "bad"
        return "warn" if self.tasks else "good"


def tasks_of(request: HttpRequest) -> list[Reason]:
    """Return the pending tasks that this user may complete."""
    return [
        *_errors(request),
        *_upstreams(request),
        *_stuck_calls(request),
        *_approvals(request),
        *_drafts(request),
        *_changed_definitions(request),
        *_ending_keys(request),
    ]


def first_steps(request: HttpRequest) -> list[Reason]:
    """Return the setup steps that a new installation has not completed."""
    steps = []
    if request.user.has_perm("mcp_app.view_tool") and not Tool.objects.filter(enabled=True).exists():
        steps.append(Reason("Add a tool: no tool is offered to clients yet", _page("tool")))
    if request.user.has_perm("mcp_app.view_session") and not Session.objects.exists():
        steps.append(Reason("Connect a client: no client has connected yet", _connect_page()))
    return steps


def _connect_page() -> str:
    """Return the address of the page that explains how to connect.

    If the project does not serve that page, return a fragment of the first page.
    """
    try:
        return reverse("mcp_connect")
    except NoReverseMatch:
        return "#mcp-endpoint"


def _approvals(request: HttpRequest) -> Iterator[Reason]:
    if request.user.has_perm("mcp_app.decide_call") and (waiting := waiting_count()):
        yield Reason(_counted(waiting, "call waits", "calls wait") + " for approval", _page("approval"))


def _upstreams(request: HttpRequest) -> Iterator[Reason]:
    """Yield tasks for upstream servers whose last request failed, or whose entries are refused."""
    if not request.user.has_perm("mcp_app.view_upstream"):
        return
    rows = list(Upstream.objects.filter(enabled=True).values_list("pk", "name", "held")[:MOST_UPSTREAMS])
    failed = {pk: (name, found.state) for pk, name, _ in rows if (found := health.of(pk)).is_failed}
    for pk, (name, state) in list(failed.items())[:NAMED_ERRORS]:
        fault = "is unavailable" if state == "unavailable" else "refuses requests"
        url = reverse("admin:mcp_app_upstream_change", args=[pk])
        yield Reason(f"The upstream server {marked(name)} {fault}", url)
    if more := len(failed) - NAMED_ERRORS if len(failed) > NAMED_ERRORS else 0:
        text = _counted(more, "more upstream server fails", "more upstream servers fail")
        yield Reason(text, _page("upstream"))
    for pk, name, held in rows:
        if held:
            words = _counted(len(held), "entry is", "entries are")
            url = reverse("admin:mcp_app_upstream_change", args=[pk])
            yield Reason(f"{words} refused until changes of {marked(name)} are published", url)


def _stuck_calls(request: HttpRequest) -> Iterator[Reason]:
    """Yield tasks for calls that have been without a worker for longer than a sweep takes."""
    if not request.user.has_perm("mcp_app.change_call"):
        return
    if number := lost_calls()[:MOST_COUNTED].count():
        text = _counted(number, "running call", "running calls") + " lost the worker and did not end"
        yield Reason(text, f"{_page('call')}?state=open")
    if number := long_waiting_calls()[:MOST_COUNTED].count():
        minutes = WAITS_LONG.total_seconds() / 60
        text = _counted(number, "call has", "calls have") + f" waited {minutes:.0f} minutes for a worker"
        yield Reason(text, f"{_page('call')}?state=accepted")


def _errors(request: HttpRequest) -> Iterator[Reason]:
    """Yield tasks for failures that are new, regressed or worse. Mistakes of callers are not among them."""
    if not request.user.has_perm("mcp_app.view_message"):
        return
    now = clock.utcnow()
    groups = needing_attention(now).select_related("assignee").order_by("-count", *LAST_SEEN)
    shown = list(groups[: NAMED_ERRORS + 1])
    for group in shown[:NAMED_ERRORS]:
        yield Reason(_error_text(group, now), reverse("admin:mcp_app_message_error", args=[group.pk]))
    if len(shown) > NAMED_ERRORS:
        more = groups[:MOST_COUNTED].count() - NAMED_ERRORS
        text = _counted(more, "more error", "more errors")
        yield Reason(text, f"{reverse('admin:mcp_app_message_errors')}?order=count")


def _error_text(group: ErrorGroup, now: datetime) -> str:
    state = ERROR_STATES.get(state_of(group), "New")
    to = "" if group.assignee is None else f", assigned to {marked(group.assignee.get_username())}"
    # A group without text has no example, because it contains different errors.
    example = group.raised.text if group.raised else group.example
    said = f": {marked(example.strip().partition(NEW_LINE)[0])[:SAID]}" if group.words else ""
    seen = _time(group.first_at, now)
    times = f"seen once, {seen}" if group.count == 1 else f"seen {group.count:,} times since {seen}"
    return f"{state} error in {marked(group.tool or group.method)} ({times}{to}){said}"


def _time(at: datetime, now: datetime) -> str:
    """Return a time of today as ``01:28``, and any other time with its date."""
    local = timezone.localtime(at)
    today = local.date() == timezone.localtime(now).date()
    return local.strftime("%H:%M" if today else "%Y-%m-%d %H:%M")


def _drafts(request: HttpRequest) -> Iterator[Reason]:
    if not may_publish(request.user):
        return
    waiting = Counter(Draft.objects.values_list("kind", flat=True)[:MOST_COUNTED])
    if waiting:
        named = {name: (str(kind._meta.verbose_name), str(kind._meta.verbose_name_plural))
                 for name, kind in DRAFTED.items()}  # fmt: skip
        kinds = ", ".join(_counted(waiting[name], *named[name]) for name in named if waiting[name])
        text = _counted(waiting.total(), "unpublished draft", "unpublished drafts") + f" ({kinds})"
        yield Reason(text, _page("draft"))


def _changed_definitions(request: HttpRequest) -> Iterator[Reason]:
    kinds: list[Any] = [Tool, Prompt, Resource, ResourceTemplate]
    asked = []
    for place, kind in enumerate(kinds):
        if request.user.has_perm(f"mcp_app.change_{kind._meta.model_name}"):
            drifted = kind.objects.exclude(reviewed_hash="").exclude(reviewed_hash=F("definition_hash"))
            counted = kind.objects.filter(pk__in=drifted.order_by().values("pk")[:MOST_COUNTED])
            asked.append(counted.order_by().values_list(Value(place)))
    changed = Counter(place for (place,) in asked[0].union(*asked[1:], all=True)) if asked else Counter()
    for place, number in sorted(changed.items()):
        about = kinds[place]._meta
        text = _counted(number, about.verbose_name, about.verbose_name_plural)
        text += ": definition changed and not accepted"
        yield Reason(text, f"{_page(about.model_name)}?drift=yes")


def _ending_keys(request: HttpRequest) -> Iterator[Reason]:
    if not request.user.has_perm("mcp_app.view_apikey"):
        return
    if number := ending_keys()[:MOST_COUNTED].count():
        text = _counted(number, "API key expires", "API keys expire") + f" within {KEY_ENDS_WITHIN.days} days"
        yield Reason(text, f"{_page('apikey')}?{urlencode({'state': ENDS_SOON})}")


def _counted(number: int, one: str, many: str) -> str:
    if number == 1:
        return f"1 {one}"
    return f"{number:,}{' or more' if number >= MOST_COUNTED else ''} {many}"


def _page(name: str) -> str:
    return reverse(f"admin:mcp_app_{name}_changelist")
