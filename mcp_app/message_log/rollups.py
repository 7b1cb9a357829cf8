"""Counts of the message log, written exactly once, in the transaction that stores the messages.

Only the log writer writes these rows. It holds the lock on its position, so two workers never write at the
same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from django.db import connection

from mcp_app import conf
from mcp_app.database import clock
from mcp_app.database.aware_times import parameter
from mcp_app.message_log.rollup_cells import (
    COUNT,
    FIRST_BUCKET,
    MINUTE,
    MS,
    SIZE,
    SKIPPED,
    WIDTH,
    Key,
    RollupCells,
)
from mcp_app.models import CallerRollup, LogMinute, Message, Rollup
from mcp_app.models.rollup import added
from mcp_app.protocol.messages.methods import OTHER

TEN_MINUTES: Final = 600
HOUR: Final = 3_600
DAY: Final = 86_400
# Retention of the short spans, slightly longer than the period that the dashboard shows. For longer spans,
# the setting ROLLUP_DAYS applies.
KEPT: Final = {MINUTE: timedelta(days=2), TEN_MINUTES: timedelta(days=8)}
SPANS: Final = (*KEPT, HOUR, DAY)
# Maximum number of tools counted by name within an hour. Calls of further tools are counted as OTHER.
MOST_TOOLS: Final = 100
SLICE: Final = 2_000

_NOTE_PLACE: Final = """
    INSERT INTO mcp_app_logminute (at, first_id, last_id) VALUES (%s, %s, %s) ON CONFLICT (at) DO UPDATE SET
        first_id = CASE WHEN excluded.first_id < mcp_app_logminute.first_id
            THEN excluded.first_id ELSE mcp_app_logminute.first_id END,
        last_id = CASE WHEN excluded.last_id > mcp_app_logminute.last_id
            THEN excluded.last_id ELSE mcp_app_logminute.last_id END"""


def write(tally: RollupCells) -> None:
    """Add the cells of a tally to the stored rows of every span."""
    cells = _bounded(tally)
    for span in SPANS:
        spanned = RollupCells()
        spanned.merge(((key[0] // span * span, *key[1:]), cell) for key, cell in cells)
        ordered = _ordered(spanned)
        # Only buckets with calls are written, because each column takes time.
        used = [place for place in range(FIRST_BUCKET, WIDTH) if any(cell[place] for _, cell in ordered)]
        numbers = (COUNT, SKIPPED, MS, SIZE, *used)
        rows = [[span, _at(key[0]), *key[1:], *[cell[place] for place in numbers]] for key, cell in ordered]
        _execute(_add_rollup(tuple(place - FIRST_BUCKET for place in used)), rows)


def record_id_ranges(messages: Iterable[Message]) -> None:
    """Store the lowest and highest message id of each minute."""
    places: dict[datetime, list[int]] = {}
    for message in messages:
        minute = message.at.replace(second=0, microsecond=0)
        place = places.setdefault(minute, [message.pk, message.pk])
        place[0], place[1] = min(place[0], message.pk), max(place[1], message.pk)
    _execute(_NOTE_PLACE, [[_stored(minute), *places[minute]] for minute in sorted(places)])


def purge() -> int:
    """Delete rows past the retention of their span. Return the number of deleted rollups."""
    removed = purge_of(Rollup, SPANS)
    oldest = Message.objects.order_by("pk").values_list("pk", flat=True).first()
    gone = LogMinute.objects.all() if oldest is None else LogMinute.objects.filter(last_id__lt=oldest)
    gone.delete()
    return removed


def purge_of(model: type[Rollup | CallerRollup], spans: Iterable[int]) -> int:
    """Delete the rows of these spans that are past their retention. Return their number."""
    now, removed = clock.read(), 0
    for span in spans:
        old = model.objects.filter(span=span, at__lt=now - retention(span)).order_by("at")
        while ids := list(old.values_list("pk", flat=True)[:SLICE]):
            removed += model.objects.filter(pk__in=ids).delete()[0]
    return removed


def retention(span: int) -> timedelta:
    """Return the retention of a span."""
    return KEPT.get(span) or timedelta(days=conf.get().rollup_days)


def _bounded(tally: RollupCells) -> list[tuple[Key, list[Any]]]:
    """Return the cells that count all tools together, and the cells of single tools.

    Only MOST_TOOLS tools per hour are counted by name. Calls of further tools are counted as OTHER.
    """
    bounded = RollupCells()
    bounded.merge(
        ((minute, method, "", outcome), cell) for (minute, method, _, outcome), cell in tally.cells.items()
    )
    hours = {key[0] // HOUR * HOUR for key in tally.cells if key[2]}
    if not hours:
        return list(bounded.cells.items())
    counted = Rollup.objects.filter(span=HOUR, at__in=[_moment(hour) for hour in hours]).exclude(tool="")
    names: dict[int, set[str]] = {hour: {OTHER} for hour in hours}
    for at, tool in counted.values_list("at", "tool").distinct():
        names[int(at.timestamp())].add(tool)
    for key, cell in tally.cells.items():
        minute, method, tool, outcome = key
        if tool:
            known = names[minute // HOUR * HOUR]
            if tool not in known and len(known) > MOST_TOOLS:
                tool = OTHER
            known.add(tool)
            bounded.merge([((minute, method, tool, outcome), cell)])
    return list(bounded.cells.items())


def _ordered(tally: RollupCells) -> list[tuple[Key, list[Any]]]:
    return sorted(tally.cells.items(), key=lambda item: item[0])


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _stored(at: datetime) -> Any:
    return parameter(at, connection)


def _at(seconds: int) -> Any:
    return _stored(_moment(seconds))


def _execute(sql: str, rows: list[list[Any]]) -> None:
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(sql, rows)


@lru_cache(maxsize=64)
def _add_rollup(buckets: tuple[int, ...]) -> str:
    keys, numbers = ("span", "at", "method", "tool", "outcome"), ("count", "skipped", "ms", "size")
    return added("mcp_app_rollup", keys, numbers, buckets, rows=1)
