"""The clock of the database. All times in rows are written and compared by it.

The clocks of two machines may differ by seconds or hours. If one machine wrote a lease and another one
checked it by its own clock, the lease could seem expired while its call runs.
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

# SQLite compares times as text. Django stores six digits of a second, but SQLite's clock has three.
# Django's own sum of a time and a duration is not used, because on SQLite it is a Python function called
# for each row.
_SQLITE = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'NOW', %(expressions)s)"

# A smaller difference is ignored: clocks synchronized by NTP differ by less, and the query takes time too.
NOTICED_SECONDS = 0.5


def now(plus: float = 0.0) -> Any:
    """Return an expression for the database's time at the start of the statement, plus ``plus`` seconds.

    The time at the start of the transaction would be wrong, because a transaction may be long.
    """
    if connection.vendor == "sqlite":
        return Func(Value(_modifier(plus)), template=_SQLITE, output_field=AwareDateTimeField())
    later = Now() + Value(timedelta(seconds=plus), output_field=DurationField())
    return ExpressionWrapper(later, output_field=AwareDateTimeField())


def lease(plus: float = 0.0) -> Any:
    """Return an expression like ``now``, but by the clock for leases.

    SQLite has no server and uses the clock of the calling process. All its processes run on one machine, so
    leases use that machine's monotonic clock, which cannot be set. A lease on SQLite is therefore the time
    since the machine started, written as a date in 1970.
    """
    if connection.vendor != "sqlite":
        return now(plus)
    return Value(_since_start(plus), output_field=AwareDateTimeField())


def lease_remaining(until: datetime | None) -> timedelta | None:
    """Return the remaining time of a stored lease for display, or None without a lease.

    On SQLite a lease is not a time of day, so only this difference means anything.
    """
    if until is None:
        return None
    return until - (_since_start(0.0) if connection.vendor == "sqlite" else utcnow())


def lease_in_sql() -> str:
    """Return ``lease`` as SQL. It has one ``%s``, for the value of ``lease_parameter``."""
    return "%s" if connection.vendor == "sqlite" else in_sql()


def lease_parameter(plus: float) -> Any:
    """Return the parameter of ``lease_in_sql``."""
    if connection.vendor != "sqlite":
        return seconds(plus)
    return parameter(_since_start(plus), connection)


def _since_start(plus: float) -> datetime:
    return datetime.fromtimestamp(time.monotonic() + plus, UTC)


def read_at() -> dict[str, Any]:
    """Return the annotation ``read_at``: the database's time when the row was read."""
    return {"read_at": now()}


def in_sql() -> str:
    """Return ``now`` as SQL for the current database. It has one ``%s``, for the value of ``seconds``."""
    query = Query(None)
    sql, _ = query.get_compiler(connection=connection).compile(now().resolve_expression(query))
    return str(sql)


def seconds(plus: float | None) -> Any:
    """Return the parameter for ``in_sql``, ``plus`` seconds from now. None stands for NULL."""
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
    """Convert the database's value of ``in_sql`` to a datetime."""
    for convert in _converters(connection.vendor):
        said = convert(said, None, connection)
    answer: datetime = said
    return answer


@cache
def _converters(_vendor: str) -> list[Any]:
    said = now()
    return [*connection.ops.get_db_converters(said), *said.get_db_converters(connection)]


def read() -> datetime:
    """Query the database's time, and record its offset from the local clock. Raise DatabaseError."""
    global _ahead  # noqa: PLW0603 - a fact about the process
    asked = time.time()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {in_sql()}", [seconds(0)])
        said = moment(cursor.fetchone()[0])
    answered = time.time()
    # If the query was slow, the offset would be inaccurate.
    if answered - asked < NOTICED_SECONDS:
        ahead = said.timestamp() - (asked + answered) / 2
        _ahead = ahead if abs(ahead) > NOTICED_SECONDS else 0.0
    return said


def timestamp() -> float:
    """Return the approximate database time without a query, for messages between processes."""
    return time.time() + _ahead


def utcnow() -> datetime:
    """Return ``timestamp`` as a datetime that can be compared with values in rows."""
    return datetime.fromtimestamp(timestamp(), UTC)


def own(said: float) -> float:
    """Convert the database time ``said`` to the local clock. Both are in seconds since the epoch."""
    return said - _ahead


_ahead = 0.0
