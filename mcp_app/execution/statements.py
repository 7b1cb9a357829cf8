"""The statements that every background call needs, in SQL: Django takes ten times as long to word them.

In all of them ``{now}`` is the database's clock, and ``{lease}`` that clock ``lease`` seconds later.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from mcp_app import database_clock
from mcp_app.models import Call

_CLAIM = """
    UPDATE mcp_app_call
    SET state = %(state)s, attempt = attempt + 1, lease_until = {lease}, started_at = {now},
        worker = %(worker)s
    WHERE id = %(id)s AND state = 'accepted' AND attempt < max_attempts"""
# What a person answered is kept for as long as it is needed.
FINISH = """
    UPDATE mcp_app_call
    SET state = %(state)s, outcome = %(outcome)s, answer = %(answer)s, finished_at = {now},
        lease_until = NULL, published = %(published)s, inputs = NULL
    WHERE id = %(id)s AND attempt = %(attempt)s AND state IN ('running', 'input_required')"""
FINISH_UNSTARTED = FINISH.replace("IN ('running', 'input_required')", "IN ('accepted', 'approval_needed')")
# Past, or further ahead than any lease reaches: then the database's clock was set back since it was written,
# and who lives has renewed it by now.
FINISH_LOST = f"{FINISH} AND (lease_until < {{now}} OR lease_until > {{lease}})"

RETURNING = ("sqlite", "postgresql")


def execute(sql: str, *, lease: float = 0.0, **values: Any) -> int:
    """Run a statement whose placeholders are named like fields; returns how many rows it changed."""
    with connection.cursor() as cursor:
        cursor.execute(_worded(connection.vendor, sql), _stored(values, lease))
        return int(cursor.rowcount)


def claim(*, lease: float, **values: Any) -> Call | None:
    """The row with this ``id`` as it is once it was claimed with the other ``values``; None if it was not."""
    if connection.vendor in RETURNING:
        return _one(_worded(connection.vendor, f"{_CLAIM} RETURNING {{columns}}"), _stored(values, lease))
    return find(values["id"]) if execute(_CLAIM, lease=lease, **values) else None


def _stored(values: dict[str, Any], lease: float) -> dict[str, Any]:
    stored = {
        field.name: field.get_db_prep_save(values[field.name], connection)
        for field in Call._meta.concrete_fields
        if field.name in values
    }
    return {**stored, "none": database_clock.seconds(0), "lease": database_clock.seconds(lease)}


@cache
def _worded(vendor: str, sql: str) -> str:
    now = database_clock.in_sql()
    none, lease = (now.replace("%s", f"%({name})s") for name in ("none", "lease"))
    return sql.format(now=none, lease=lease, columns=f"{_columns(vendor)}, {none}")


def insert(row: Call, moments: Mapping[str, float | None]) -> Call:
    """Store a new row and return it as it was stored.

    ``moments`` gives fields the database's time, so many seconds from now. Raises IntegrityError, which
    leaves a transaction around this usable.
    """
    values = [
        database_clock.seconds(moments[field.attname])
        if field.attname in moments
        else field.get_db_prep_save(getattr(row, field.attname), connection)
        for field in Call._meta.concrete_fields
    ]
    around = transaction.atomic() if connection.in_atomic_block else nullcontext()
    sql = _insert(connection.vendor, tuple(moments))
    with around, connection.cursor() as cursor:
        cursor.execute(sql, values)
        told = cursor.fetchone() if connection.vendor in RETURNING else None
    if told is None:
        stored = find(row.pk)
        assert stored is not None
        return stored
    for name, moment in zip(moments, told, strict=True):
        setattr(row, name, None if moment is None else database_clock.moment(moment))
    row.read_at = row.accepted_at
    return row


@cache
def _insert(vendor: str, moments: tuple[str, ...]) -> str:
    now, fields = database_clock.in_sql(), Call._meta.concrete_fields
    marks = ", ".join(now if field.attname in moments else "%s" for field in fields)
    sql = f"INSERT INTO mcp_app_call ({_columns(vendor)}) VALUES ({marks})"  # noqa: S608 - our own names
    return f"{sql} RETURNING {', '.join(moments)}" if vendor in RETURNING else sql


def find(call_id: UUID | str) -> Call | None:
    """The row with this id."""
    key = Call._meta.pk.get_db_prep_value(call_id, connection)
    sql = _worded(connection.vendor, "SELECT {columns} FROM mcp_app_call WHERE id = %(id)s")
    return _one(sql, {"id": key, "none": database_clock.seconds(0)})


def _one(sql: str, values: Any) -> Call | None:
    """The row that a statement returns, with all columns in their order, and when it was read."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows = cursor.fetchall()
    if not rows:
        return None
    *row, read_at = rows[0]
    for place, column, converters in _converted(connection.vendor):
        for convert in converters:
            row[place] = convert(row[place], column, connection)
    found = Call.from_db(connection.alias, [field.attname for field in Call._meta.concrete_fields], row)
    found.read_at = database_clock.moment(read_at)
    return found


@cache
def _columns(_vendor: str) -> str:
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in Call._meta.concrete_fields)


@cache
def _converted(_vendor: str) -> list[tuple[int, Any, list[Any]]]:
    """What the database gives in another form than the model has: place, column and how to convert it."""
    columns = [field.cached_col for field in Call._meta.concrete_fields]
    converters = [
        [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
        for column in columns
    ]
    return [(place, columns[place], functions) for place, functions in enumerate(converters) if functions]
