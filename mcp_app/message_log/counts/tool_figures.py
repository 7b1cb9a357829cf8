"""Counts of one tool's calls by caller, computed from the tool's newest messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Final, NamedTuple

from mcp_app.interface.clients import client_names
from mcp_app.message_log.counts.figures import MOST_NAMED, Named
from mcp_app.message_log.pages import between
from mcp_app.message_log.rollup_cells import bucket_of
from mcp_app.message_log.traffic import CallFigures, Period
from mcp_app.models import CallerRollup, Message
from mcp_app.models.rollup import BUCKET_COLUMNS

# Maximum number of messages read. The stored counts by caller do not include the tool, so a tool's calls are
# counted from the log.
MOST_READ: Final = 10_000


class _Answered(NamedTuple):
    """The columns that are read from each message."""

    at: datetime
    session: str | None
    principal: str
    method: str
    outcome: str
    milliseconds: float | None


def called_by(kind: str, tool: str, period: Period, now: datetime) -> tuple[Named, bool]:
    """Return a tool's calls by client or principal, and True if they cover the whole period."""
    since = period.starts(now)[0]
    messages = between(Message.objects.filter(target=tool), since, period.until).order_by("-pk")
    columns = ("at", "session_id", "principal", "method", "outcome", "duration_ms")
    rows = [_Answered(*row) for row in messages.values_list(*columns)[: MOST_READ + 1]]
    answered = [row for row in rows[:MOST_READ] if _is_counted(row, since, period.until)]
    name = _namer(kind, answered)
    durations: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for row in answered:
        durations[name(row), row.outcome].append(row.milliseconds)
    found: dict[str, CallFigures] = {}
    for (called, outcome), took in durations.items():
        found.setdefault(called, CallFigures()).add(outcome, len(took), _buckets(took))
    ordered = sorted(found.items(), key=lambda item: (-item[1].all, item[0]))
    named = Named(since, period.until, ordered[:MOST_NAMED], len(ordered[MOST_NAMED:]))
    return named, len(rows) <= MOST_READ


def _is_counted(row: _Answered, since: datetime, until: datetime | None) -> bool:
    is_answer = row.method == "tools/call" and row.outcome
    return bool(is_answer) and since <= row.at and (until is None or row.at < until)


def _namer(kind: str, rows: list[_Answered]) -> Callable[[_Answered], str]:
    if kind == CallerRollup.Kind.PRINCIPAL:
        return lambda row: row.principal
    clients = client_names(row.session for row in rows if row.session)
    return lambda row: clients.get(row.session or "", "")


def _buckets(durations: list[float | None]) -> list[int]:
    counts = [0] * len(BUCKET_COLUMNS)
    for milliseconds in durations:
        if milliseconds is not None:
            counts[bucket_of(milliseconds)] += 1
    return counts
