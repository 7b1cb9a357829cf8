"""The one clock that rows are written and judged by: the database's. No process compares its own with a row.

Two machines may be seconds or hours apart. A lease written by one and judged by another would then be taken
for lost while its call runs well.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, Func, Value
from django.db.models.functions import Now
from django.db.models.sql import Query

from mcp_app.database.aware_times import AwareDateTimeField, parameter

# SQLite compares times as text, and Django stores them with six digits, of which SQLite's clock has three.
# Django's own sum of a time and a duration would be a function in Python, called for each of them.
_SQLITE = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'NOW', %(expressions)s)"

# Clocks that are kept by NTP differ by less, and asking takes a while, too.
NOTICED_SECONDS = 0.5


def now(plus: float = 0.0) -> Any:
    """An expression: what the database's clock says when a statement begins, and ``plus`` seconds later.

    When the statement begins, not its transaction: transactions may be long.
    """
    if connection.vendor == "sqlite":
        return Func(Value(_modifier(plus)), template=_SQLITE, output_field=AwareDateTimeField())
    later = Now() + Value(timedelta(seconds=plus), output_field=DurationField())
    return ExpressionWrapper(later, output_field=AwareDateTimeField())


def lease(plus: float = 0.0) -> Any:
    """As ``now``, by the clock that leases are written and judged by.

    SQLite has no server whose clock could be asked: it answers with the clock of the process that asks. Its
    processes share one machine, and so that machine's monotonic clock, which cannot be set: there a lease is
    a time since the machine was started, written as a time of 1970.
    """
    if connection.vendor != "sqlite":
        return now(plus)
    return Value(_since_start(plus), output_field=AwareDateTimeField())


def lease_left(until: datetime | None) -> timedelta | None:
    """How long a lease that was read from a row still runs, for people; None when there is none.

    What ``lease`` writes is no time of day on SQLite: only the difference means something.
    """
    if until is None:
        return None
    return until - (_since_start(0.0) if connection.vendor == "sqlite" else utcnow())


def lease_in_sql() -> str:
    """``lease`` as SQL, with one ``%s`` in it for ``lease_parameter``."""
    return "%s" if connection.vendor == "sqlite" else in_sql()


def lease_parameter(plus: float) -> Any:
    """The parameter of ``lease_in_sql``."""
    if connection.vendor != "sqlite":
        return seconds(plus)
    return parameter(_since_start(plus), connection)


def _since_start(plus: float) -> datetime:
    return datetime.fromtimestamp(time.monotonic() + plus, UTC)


def read_at() -> dict[str, Any]:
    """For ``annotate``: each row's ``read_at`` is what the clock said when it was read."""
    return {"read_at": now()}


def in_sql() -> str:
    """``now`` as SQL of the database in use, with one ``%s`` in it for ``seconds``."""
    query = Query(None)
    sql, _ = query.get_compiler(connection=connection).compile(now().resolve_expression(query))
    return str(sql)


def seconds(plus: float | None) -> Any:
    """The parameter of ``in_sql``; None gives NULL."""
    return _later(connection.vendor, plus)


@lru_cache(maxsize=64)
def _later(vendor: str, plus: float | None) -> Any:
    if plus is None:
        return None
    if vendor == "sqlite":
        return _modifier(plus)
    return DurationField().get_db_prep_value(timedelta(seconds=plus), connection)


def _modifier(plus: float) -> str:
    return f"{plus:+.3f} seconds"


def moment(said: Any) -> datetime:
    """The value of ``in_sql``, as the database gave it."""
    for convert in _converters(connection.vendor):
        said = convert(said, None, connection)
    told: datetime = said
    return told


@cache
def _converters(_vendor: str) -> list[Any]:
    said = now()
    return [*connection.ops.get_db_converters(said), *said.get_db_converters(connection)]


def read() -> datetime:
    """What the database's clock says. Asks it, and notes how far it is from ours; raises DatabaseError."""
    global _ahead  # noqa: PLW0603 - a fact about the process
    asked = time.time()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {in_sql()}", [seconds(0)])
        said = moment(cursor.fetchone()[0])
    answered = time.time()
    # What took long says little.
    if answered - asked < NOTICED_SECONDS:
        ahead = said.timestamp() - (asked + answered) / 2
        _ahead = ahead if abs(ahead) > NOTICED_SECONDS else 0.0
    return said


def timestamp() -> float:
    """About what the database's clock says, without asking it: for what processes tell each other."""
    return time.time() + _ahead


def utcnow() -> datetime:
    """As ``timestamp``, to compare with what was read from rows."""
    return datetime.fromtimestamp(timestamp(), UTC)


def own(said: float) -> float:
    """What this process's clock says when the database's says ``said``; both are seconds since the epoch."""
    return said - _ahead


_ahead = 0.0
