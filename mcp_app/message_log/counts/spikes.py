"""Detection of a caller that suddenly makes most of the calls.

A caller is a principal (usually an API key), a user with all credentials, or a client by its name. Its recent
calls are those of the current ten minutes, or of the last ten to twenty minutes if these are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Sum

from mcp_app.message_log.counts.limited_figures import of_client
from mcp_app.message_log.pages import between
from mcp_app.message_log.rollup_cells import MINUTE
from mcp_app.message_log.rollups import TEN_MINUTES
from mcp_app.message_log.traffic import fewest_cells
from mcp_app.models import CallerRollup, Message
from mcp_app.protocol.messages.methods import OTHER
from mcp_app.protocol.principal_key import person_of

# A spike has at least FEWEST recent calls and the fraction SHARE of all recent calls. Its share is at least
# ABOVE more than its usual share, and its rate at least TIMES its usual rate. The usual traffic is that of
# the time USUAL before the recent calls. Without any, no caller is a spike.
FEWEST: Final = 100
SHARE: Final = 0.5
ABOVE: Final = 0.25
TIMES: Final = 3.0
USUAL: Final = timedelta(days=1)
# A caller without calls for this time has stopped and is not a spike.
STOPPED: Final = timedelta(minutes=5)
# Maximum number of messages read to find the minute in which a spike began.
MOST_READ: Final = 5_000

CLIENT, PRINCIPAL = CallerRollup.Kind.CLIENT.value, CallerRollup.Kind.PRINCIPAL.value
USER: Final = "user"
CELL: Final = timedelta(seconds=TEN_MINUTES)


@dataclass(frozen=True, slots=True)
class Counts:
    """Calls by name in a number of minutes."""

    calls: Mapping[str, int]
    minutes: float

    def share(self, name: str) -> float:
        """Return the fraction of all calls that have this name."""
        return self.calls.get(name, 0) / max(sum(self.calls.values()), 1)

    def rate(self, name: str) -> float:
        """Return the calls per minute with this name."""
        return self.calls.get(name, 0) / self.minutes


@dataclass(frozen=True, slots=True)
class Spike:
    """A caller with a sudden majority of calls.

    ``names`` maps the kinds PRINCIPAL, USER and CLIENT to the dominating name, if there is one. ``share`` is
    the fraction of recent calls of the first kind in ``names``.
    """

    names: dict[str, str]
    share: float
    since: datetime


def dominating(recent: Counts, usual: Counts) -> str | None:
    """Return the name that dominates the recent calls unlike usually, or None.

    The names "" and OTHER stand for several callers and never dominate.
    """
    named = {name: calls for name, calls in recent.calls.items() if name not in ("", OTHER)}
    if not named or not sum(usual.calls.values()):
        return None
    name = max(named, key=lambda each: (named[each], each))
    is_many = named[name] >= FEWEST and recent.share(name) >= SHARE
    is_unusual = recent.share(name) >= usual.share(name) + ABOVE
    return name if is_many and is_unusual and recent.rate(name) >= TIMES * usual.rate(name) else None


def find_spike(now: datetime) -> Spike | None:
    """Return the caller that dominates the recent calls and still makes calls, or None."""
    current = datetime.fromtimestamp(int(now.timestamp()) // TEN_MINUTES * TEN_MINUTES, UTC)
    before = current - CELL
    rows = _rows(Q(span=TEN_MINUTES, at__in=(before, current)), "at")
    usual = _grouped(_rows(fewest_cells(TEN_MINUTES, before - USUAL, before - CELL, now)))
    for first in (current, before):
        minutes = max((now - first).total_seconds() / MINUTE, 1.0)
        recent = _grouped(row[1:] for row in rows if row[0] >= first)
        found = {
            kind: (Counts(calls, minutes), name)
            for kind, calls in recent.items()
            if (name := dominating(Counts(calls, minutes), Counts(usual[kind], USUAL / timedelta(minutes=1))))
        }
        if found:
            kind, (counts, name) = next(iter(found.items()))
            if not _calls_since(kind, name, now - STOPPED).exists():
                return None
            since = _begin(kind, name, first, counts.rate(name))
            return Spike({each: named for each, (_, named) in found.items()}, counts.share(name), since)
    return None


def _rows(cells: Q, *columns: str) -> list[tuple[Any, ...]]:
    """Return the calls in the cells: the values of ``columns``, kind, name and number of calls."""
    rows = CallerRollup.objects.filter(cells).order_by().values_list(*columns, "kind", "name")
    return list(rows.annotate(calls=Sum("count")))


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[str, Counter[str]]:
    """Return calls by principal, by user and by client."""
    found: dict[str, Counter[str]] = {PRINCIPAL: Counter(), USER: Counter(), CLIENT: Counter()}
    for kind, name, calls in rows:
        found[kind][name] += calls
        if kind == PRINCIPAL:
            found[USER][person_of(name)] += calls
    return found


def _begin(kind: str, name: str, first: datetime, rate: float) -> datetime:
    """Return the minute in which the spike began. ``first`` is the start of its recent calls."""
    cell = _first_cell(kind, name, first)
    times = _calls_since(kind, name, cell).order_by("pk").values_list("at", flat=True)
    minutes = Counter(int(at.timestamp()) // MINUTE * MINUTE for at in times[:MOST_READ])
    # The rate is an average of minutes before the begin, too, so the minutes of the spike are above it.
    started = min((minute for minute, calls in minutes.items() if calls >= rate / 2), default=None)
    return cell if started is None else datetime.fromtimestamp(started, UTC)


def _calls_since(kind: str, name: str, since: datetime) -> QuerySet[Message]:
    messages = between(Message.objects.filter(_condition(kind, name, since)), since, None)
    return messages.filter(method="tools/call", at__gte=since)


def _first_cell(kind: str, name: str, first: datetime) -> datetime:
    """Return the earliest ten minutes from which on the caller made most of the calls."""
    rows = CallerRollup.objects.filter(
        span=TEN_MINUTES,
        kind=CLIENT if kind == CLIENT else PRINCIPAL,
        at__gte=first - USUAL,
        at__lt=first,
    ).order_by()
    mine = _named(kind, name)
    shares = {
        at: (own or 0) / max(calls, 1)
        for at, calls, own in rows.values_list("at").annotate(
            calls=Sum("count"), own=Sum("count", filter=mine)
        )
    }
    while shares.get(first - CELL, 0.0) >= SHARE:
        first -= CELL
    return first


def _named(kind: str, name: str) -> Q:
    return Q(name=name) | Q(name__startswith=f"{name}/") if kind == USER else Q(name=name)


def _condition(kind: str, name: str, since: datetime) -> Q:
    if kind == CLIENT:
        return of_client(name, since)
    if kind == USER:
        return Q(principal=name) | Q(principal__startswith=f"{name}/")
    return Q(principal=name)
