"""Counts of tool calls by client and by principal, written in the transaction that stores the messages.

Only the log writer writes these rows. Lines that a busy process dropped are not counted here, because their
callers are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from django.db import connection

from mcp_app.database.aware_times import parameter
from mcp_app.message_log.rollup_cells import bucket_of
from mcp_app.message_log.rollups import DAY, HOUR, SLICE, TEN_MINUTES, purge_of
from mcp_app.models import CallerRollup, Message, Session
from mcp_app.models.rollup import added
from mcp_app.protocol.messages.methods import OTHER

SPANS: Final = (TEN_MINUTES, HOUR, DAY)
# Maximum number of names counted within an hour, per kind. Calls by further names are counted as OTHER.
MOST_NAMES: Final = 250
# Rows per statement, so that the number of parameters stays below the limits of both databases.
ROWS: Final = 200
# Keys of the numbers in a cell: bytes, milliseconds and number of calls. A bucket's index is the key of the
# number of calls whose duration falls into the bucket. Zeros of buckets are not stored.
SIZE, MS, COUNT = -3, -2, -1
CLIENT, PRINCIPAL = CallerRollup.Kind.CLIENT.value, CallerRollup.Kind.PRINCIPAL.value

# Start of ten minutes (Unix time), principal, session id, outcome.
_Key = tuple[int, str, str | None, str]
_Numbers = dict[int, float]
# Start of a span (Unix time), kind of name, name, outcome.
_Cell = tuple[int, str, str, str]


class Callers:
    """The tool calls among the messages of one transaction, counted by caller."""

    __slots__ = ("cells",)

    def __init__(self) -> None:
        self.cells: dict[_Key, _Numbers] = {}

    def add(self, message: Message, at: float) -> None:
        """Count a message if it is a finished tool call."""
        if message.method != "tools/call" or not message.outcome:
            return
        key = (
            int(at) // TEN_MINUTES * TEN_MINUTES,
            message.principal,
            message.session_id,
            message.outcome,
        )
        cell = self.cells.get(key)
        if cell is None:
            cell = self.cells[key] = {SIZE: 0, MS: 0.0, COUNT: 0}
        cell[COUNT] += 1
        cell[SIZE] += message.size or 0
        if message.duration_ms is not None:
            cell[MS] += message.duration_ms
            bucket = bucket_of(message.duration_ms)
            cell[bucket] = cell.get(bucket, 0) + 1

    def merge(self, other: Callers) -> None:
        """Add the counts of ``other``."""
        for key, numbers in other.cells.items():
            _add(self.cells, key, numbers)


def write(callers: Callers) -> None:
    """Add the counts to the stored rows of every span."""
    if not callers.cells:
        return
    named = _named(callers)
    for span in SPANS:
        spanned: dict[_Cell, _Numbers] = {}
        for (at, *names), numbers in named.items():
            _add(spanned, (at // span * span, *names), numbers)
        # Only buckets with calls are written, because each column takes time.
        used = tuple(sorted(set().union(*spanned.values())))
        rows = [
            [span, _stored(key[0]), *key[1:], *[spanned[key].get(place, 0) for place in used]]
            for key in sorted(spanned)
        ]
        for start in range(0, len(rows), ROWS):
            some = rows[start : start + ROWS]
            with connection.cursor() as cursor:
                cursor.execute(_statement(len(some), used[3:]), [each for row in some for each in row])


def purge() -> int:
    """Delete rows past the retention of their span. Return their number."""
    return purge_of(CallerRollup, SPANS)


def _add(cells: dict[Any, _Numbers], key: Any, numbers: _Numbers) -> None:
    cell = cells.setdefault(key, {})
    for place, number in numbers.items():
        cell[place] = cell.get(place, 0) + number


def _named(callers: Callers) -> dict[_Cell, _Numbers]:
    """Group the counts by client and by principal, with at most MOST_NAMES names of each kind per hour."""
    clients = _clients({key[2] for key in callers.cells if key[2] is not None})
    known = _known({key[0] // HOUR * HOUR for key in callers.cells})
    found: dict[_Cell, _Numbers] = {}
    for (at, principal, session, outcome), numbers in callers.cells.items():
        for kind, name in ((CLIENT, clients.get(session or "", "")), (PRINCIPAL, principal)):
            names = known.setdefault((at // HOUR * HOUR, kind), {OTHER})
            counted = name if name in names or len(names) <= MOST_NAMES else OTHER
            names.add(counted)
            _add(found, (at, kind, counted, outcome), numbers)
    return found


def _clients(sessions: Iterable[str]) -> dict[str, str]:
    """Map session ids to the names of the sessions' clients."""
    named = sorted(sessions)
    found: dict[str, str] = {}
    for start in range(0, len(named), SLICE):
        some = Session.objects.filter(pk__in=named[start : start + SLICE])
        found.update(some.order_by().values_list("pk", "client_name"))
    return found


def _known(hours: set[int]) -> dict[tuple[int, str], set[str]]:
    """Return the names that already have rows in these hours, by hour and kind."""
    rows = CallerRollup.objects.filter(span=HOUR, at__in=[_moment(hour) for hour in hours])
    found: dict[tuple[int, str], set[str]] = {}
    for at, kind, name in rows.order_by().values_list("at", "kind", "name").distinct():
        found.setdefault((int(at.timestamp()), kind), {OTHER}).add(name)
    return found


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _stored(seconds: int) -> Any:
    return parameter(_moment(seconds), connection)


@lru_cache(maxsize=64)
def _statement(rows: int, buckets: tuple[int, ...]) -> str:
    keys = ("span", "at", "kind", "name", "outcome")
    return added("mcp_app_callerrollup", keys, ("size", "ms", "count"), buckets, rows=rows)
