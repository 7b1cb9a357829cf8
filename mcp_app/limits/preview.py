"""The calls of the last week that a limit would have refused, from the message log."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from mcp_app.database import clock
from mcp_app.limits.matching import Caller, subject_of
from mcp_app.limits.rules import MICROSECONDS, Period, Rule, What, Who
from mcp_app.models import Message

DAYS: Final = 7
# The newest calls are looked at. More would take too long for a page.
MOST_CALLS: Final = 100_000
MOST_SUBJECTS: Final = 5
BATCH: Final = 5_000


@dataclass(slots=True)
class Preview:
    """The calls that a limit fits, those that it would have refused, and the subjects refused most.

    ``problem`` is the reason if the calls cannot be told from the log.
    """

    calls: int = 0
    refused: int = 0
    subjects: list[tuple[str, int]] = field(default_factory=list)
    since: datetime | None = None
    problem: str = ""


@dataclass(slots=True)
class _Count:
    """The state of all measures of one subject."""

    arrival: float = 0.0
    ends: list[float] = field(default_factory=list)
    period: datetime | None = None
    spent: int = 0


def of_rule(rule: Rule, tools: Mapping[str, Any]) -> Preview:
    """Return what a rule would have refused in the last days. ``tools`` are the entries by name.

    Blocks on the database. The log knows neither the address nor the toolset of a call.
    """
    since = clock.utcnow() - timedelta(days=DAYS)
    if rule.who == Who.ADDRESS or rule.what == What.TOOLSET:
        return Preview(since=since, problem="The log does not have the address or toolset of a call.")
    found, counts, refused = Preview(since=since), dict[str, _Count](), Counter[str]()
    fields = ("at", "principal", "target", "duration_ms")
    calls = Message.objects.filter(at__gte=since, method="tools/call", direction="in", refusal=None)
    newest = calls.exclude(outcome="").order_by("-id").values_list(*fields)[:MOST_CALLS]
    for at, principal, target, milliseconds in reversed(list(newest)):
        tool = tools.get(target)
        subject = subject_of(rule, Caller.of(principal))
        if not subject or not rule.takes(target, getattr(tool, "tags", ()), ""):
            continue
        found.calls += 1
        count = counts.setdefault(subject, _Count())
        if not _admits(rule, count, at, (milliseconds or 0.0) / 1000, getattr(tool, "cost", None) or 1):
            refused[subject] += 1
    found.refused, found.subjects = refused.total(), refused.most_common(MOST_SUBJECTS)
    return found


def _admits(rule: Rule, count: _Count, at: datetime, seconds: float, cost: int) -> bool:
    """Return True if the rule admits a call, and count it. The row of a call has the time of its end."""
    now = at.timestamp() - seconds
    units = cost if rule.budget_unit == "cost" else 1
    if rule.budget:
        period = Period.at(rule.budget_period, at).start
        if period != count.period:
            count.period, count.spent = period, 0
        if count.spent + units > rule.budget:
            return False
    if rule.concurrent:
        while count.ends and count.ends[0] <= now:
            heapq.heappop(count.ends)
        if len(count.ends) >= rule.concurrent:
            return False
    if rule.rate:
        emission = rule.emission / MICROSECONDS
        arrival = max(count.arrival, now)
        if arrival + emission > now + emission * (rule.burst or rule.rate) + 1e-9:
            return False
        count.arrival = arrival + emission
    if rule.concurrent:
        heapq.heappush(count.ends, now + seconds)
    count.spent += units
    return True
