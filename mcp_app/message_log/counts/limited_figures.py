"""Counts of the calls of one tool, client or principal, computed from the newest messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Q

from mcp_app.interface.clients import client_names
from mcp_app.message_log.counts.figures import MOST_NAMED, TOOL, Named
from mcp_app.message_log.pages import between
from mcp_app.message_log.rollup_cells import bucket_of
from mcp_app.message_log.traffic import CallFigures, Period
from mcp_app.models import CallerRollup, Message, Session
from mcp_app.models.rollup import BUCKET_COLUMNS
from mcp_app.protocol.messages.methods import OTHER
from mcp_app.protocol.principal_key import ACTOR

# Maximum number of messages read. The stored counts have either a tool or a caller, so combinations are
# counted from the log.
MOST_READ: Final = 10_000
# Maximum number of a client's newest sessions whose messages are read.
MOST_SESSIONS: Final = 500


class _Answered(NamedTuple):
    """The columns that are read from each message."""

    at: datetime
    session: str | None
    principal: str
    method: str
    target: str
    outcome: str
    milliseconds: float | None
    size: int | None


def called_by(kind: str, limit: Q, period: Period, now: datetime) -> tuple[Named, bool]:
    """Return the calls that match ``limit`` by tool, client or principal.

    The second item is True if the counts cover the whole period.
    """
    since = period.starts(now)[0]
    rows, whole = _answered(limit, since, period.until)
    name = _namer(kind, rows)
    grouped: dict[str, list[_Answered]] = defaultdict(list)
    for row in rows:
        grouped[name(row)].append(row)
    found = {named: _figures(mine) for named, mine in grouped.items()}
    ordered = sorted(found.items(), key=lambda item: (-item[1].all, item[0]))
    return Named(since, period.until, ordered[:MOST_NAMED], len(ordered[MOST_NAMED:])), whole


def tools_called(principals: Iterable[str], since: datetime) -> tuple[set[str], bool]:
    """Return the names of the tools that these principals called.

    The second item is True if the names cover the whole time since ``since``.
    """
    names, left = set[str](), MOST_READ
    for principal in principals:
        # With one principal, an index has the newest messages. With several, all messages may be read.
        rows = _newest(Q(principal=principal), since, None, left)
        names.update(row.target for row in rows[:left] if _is_counted(row, since, None))
        left -= len(rows)
        if left < 0:
            return names, False
    return names, True


def principals_of(user: str, since: datetime) -> list[str]:
    """Return the principals of a user's sessions since ``since``, without those of others as the user."""
    own = Q(principal=user) | Q(principal__startswith=f"{user}/") & ~Q(principal__contains=ACTOR)
    found = Session.objects.filter(own, last_seen_at__gte=since).order_by("principal")
    return list(found.values_list("principal", flat=True).distinct())


def called_over_time(
    limit: Q, period: Period, now: datetime
) -> tuple[list[tuple[datetime, CallFigures]], bool]:
    """Return the calls that match ``limit`` in each point of a period.

    The second item is True if the counts cover the whole period.
    """
    starts = period.starts(now)
    rows, whole = _answered(limit, starts[0], period.until)
    points: dict[int, list[_Answered]] = {int(at.timestamp()): [] for at in starts}
    for row in rows:
        points.get(int(row.at.timestamp()) // period.span * period.span, []).append(row)
    return [(at, _figures(points[int(at.timestamp())])) for at in starts], whole


def of_client(name: str, since: datetime) -> Q:
    """Return the condition for the messages of a client, in its newest sessions since ``since``."""
    seen = Session.objects.filter(client_name=name, last_seen_at__gte=since).order_by("-last_seen_at")
    return Q(session__in=list(seen.values_list("pk", flat=True)[:MOST_SESSIONS]))


def _answered(limit: Q, since: datetime, until: datetime | None) -> tuple[list[_Answered], bool]:
    rows = _newest(limit, since, until, MOST_READ)
    counted = [row for row in rows[:MOST_READ] if _is_counted(row, since, until)]
    return counted, len(rows) <= MOST_READ


def _newest(limit: Q, since: datetime, until: datetime | None, most: int) -> list[_Answered]:
    """Return the newest messages that match ``limit``: at most ``most``, and one more if there are more."""
    messages = between(Message.objects.filter(limit), since, until).order_by("-pk")
    columns = ("at", "session_id", "principal", "method", "target", "outcome", "duration_ms", "size")
    return [_Answered(*row) for row in messages.values_list(*columns)[: most + 1]]


def _is_counted(row: _Answered, since: datetime, until: datetime | None) -> bool:
    is_answer = row.method == "tools/call" and row.outcome
    return bool(is_answer) and since <= row.at and (until is None or row.at < until)


def _namer(kind: str, rows: list[_Answered]) -> Callable[[_Answered], str]:
    if kind == TOOL:
        return lambda row: row.target or OTHER
    if kind == CallerRollup.Kind.PRINCIPAL:
        return lambda row: row.principal
    clients = client_names(row.session for row in rows if row.session)
    return lambda row: clients.get(row.session or "", "")


def _figures(rows: list[_Answered]) -> CallFigures:
    found = CallFigures()
    by_outcome: dict[str, list[_Answered]] = defaultdict(list)
    for row in rows:
        by_outcome[row.outcome].append(row)
    for outcome, mine in by_outcome.items():
        found.add(
            outcome,
            len(mine),
            _buckets(mine),
            ms=sum(row.milliseconds or 0.0 for row in mine),
            size=sum(row.size or 0 for row in mine),
        )
    return found


def _buckets(rows: list[_Answered]) -> list[int]:
    counts = [0] * len(BUCKET_COLUMNS)
    for row in rows:
        if row.milliseconds is not None:
            counts[bucket_of(row.milliseconds)] += 1
    return counts
