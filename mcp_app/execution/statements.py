"""The statements that every background call needs, in SQL: Django takes ten times as long to word them."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from mcp_app.models import Call

_CLAIM = """
    UPDATE mcp_app_call
    SET state = %(state)s, attempt = attempt + 1, lease_until = %(lease_until)s, started_at = %(started_at)s,
        worker = %(worker)s
    WHERE id = %(id)s AND state = 'accepted' AND attempt < max_attempts"""
# What a person answered is kept for as long as it is needed.
FINISH = """
    UPDATE mcp_app_call
    SET state = %(state)s, outcome = %(outcome)s, answer = %(answer)s, finished_at = %(finished_at)s,
        lease_until = NULL, published = %(published)s, inputs = NULL
    WHERE id = %(id)s AND attempt = %(attempt)s AND state IN ('running', 'input_required')"""
FINISH_UNSTARTED = FINISH.replace("IN ('running', 'input_required')", "IN ('accepted', 'approval_needed')")
FINISH_LOST = f"{FINISH} AND lease_until < %(finished_at)s"

RETURNING = ("sqlite", "postgresql")


def execute(sql: str, **values: Any) -> int:
    """Run a statement whose placeholders are named like fields; returns how many rows it changed."""
    with connection.cursor() as cursor:
        cursor.execute(sql, _stored(values))
        return int(cursor.rowcount)


def claim(**values: Any) -> Call | None:
    """The row with this ``id`` as it is once it was claimed with the other ``values``; None if it was not."""
    if connection.vendor in RETURNING:
        return _one(f"{_CLAIM} RETURNING {_columns(connection.vendor)}", _stored(values))
    return find(values["id"]) if execute(_CLAIM, **values) else None


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    return {
        field.name: field.get_db_prep_save(values[field.name], connection)
        for field in Call._meta.concrete_fields
        if field.name in values
    }


def insert(row: Call) -> None:
    """Store a new row; raises IntegrityError, which leaves a transaction around this usable."""
    fields = Call._meta.concrete_fields
    values = [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
    around = transaction.atomic() if connection.in_atomic_block else nullcontext()
    with around, connection.cursor() as cursor:
        cursor.execute(_insert(connection.vendor), values)


@cache
def _insert(vendor: str) -> str:
    marks = ", ".join(["%s"] * len(Call._meta.concrete_fields))
    return f"INSERT INTO mcp_app_call ({_columns(vendor)}) VALUES ({marks})"  # noqa: S608 - our own names


def find(call_id: UUID | str) -> Call | None:
    """The row with this id."""
    key = Call._meta.pk.get_db_prep_value(call_id, connection)
    columns = _columns(connection.vendor)
    return _one(f"SELECT {columns} FROM mcp_app_call WHERE id = %s", [key])  # noqa: S608 - our own names


def _one(sql: str, values: Any) -> Call | None:
    """The row that a statement returns, with all columns in their order."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        rows = cursor.fetchall()
    if not rows:
        return None
    row = list(rows[0])
    for place, column, converters in _converted(connection.vendor):
        for convert in converters:
            row[place] = convert(row[place], column, connection)
    return Call.from_db(connection.alias, [field.attname for field in Call._meta.concrete_fields], row)


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
