"""The SQL statements that every background call needs, because Django takes ten times as long to build them.

In all statements ``{now}`` is the database's clock. ``{lease_now}`` is the clock for leases, and
``{lease}`` is that clock plus the parameter ``lease`` in seconds. ``{waiting}``, ``{active}`` and
``{unstarted}`` are conditions on the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.models import BooleanField, CharField, FloatField, ForeignKey, IntegerField, TextField

from mcp_app.database import clock as database_clock
from mcp_app.execution.stored import fair_order
from mcp_app.models import Call
from mcp_app.protocol.call_state import OPEN, UNSTARTED, State, Transition

_CLAIM = """
    UPDATE mcp_app_call
    SET state = %(state)s, attempt = attempt + 1, lease_until = {lease}, started_at = {now},
        worker = %(worker)s
    WHERE id = {chosen} AND {waiting} AND attempt < max_attempts"""
_THIS = "%(id)s"
NEXT = """(
        SELECT id FROM mcp_app_call
        WHERE queue = (SELECT queue FROM mcp_app_call WHERE id = %(id)s) AND lane = '' AND {waiting}
            AND person NOT IN (
                SELECT person FROM mcp_app_call WHERE {asking}
                GROUP BY person HAVING COUNT(*) >= %(unanswered)s)
        ORDER BY priority DESC, start_tag, accepted_at LIMIT 1 {lock})"""
# Claim the row with this ``id``, or the first row in the fair order of the same queue. The second statement
# skips people with at least ``unanswered`` calls that wait for their clients.
CLAIM, CLAIM_NEXT = (_CLAIM.replace("{chosen}", chosen) + " RETURNING {columns}" for chosen in (_THIS, NEXT))
# Sets ``inputs`` to NULL: answers given by users are deleted once they are no longer needed.
FINISH = """
    UPDATE mcp_app_call
    SET state = %(state)s, outcome = %(outcome)s, answer = %(answer)s, finished_at = {now},
        lease_until = NULL, published = %(published)s, inputs = NULL
    WHERE id = %(id)s AND attempt = %(attempt)s AND {active}"""
# Resets the start tag: a call that never started must not delay the next calls of its person.
FINISH_UNSTARTED = FINISH.replace("{active}", "{unstarted}").replace(
    "inputs = NULL", "inputs = NULL, start_tag = CASE WHEN started_at IS NULL THEN 0.0 ELSE start_tag END"
)
# The lease has expired, or it ends later than any lease can. In the second case the database's clock has
# been set back since, and a live worker would have renewed its lease by now.
FINISH_LOST = f"{FINISH} AND (lease_until < {{lease_now}} OR lease_until > {{lease}})"

# Only the first request to stop a call sets the values. A repeated request returns the stored values.
_REQUEST_CANCEL = """
    UPDATE mcp_app_call
    SET cancel_requested_at = COALESCE(cancel_requested_at, {now}),
        cancel_reason = CASE WHEN cancel_requested_at IS NULL THEN %(cancel_reason)s ELSE cancel_reason END
    WHERE {which} AND {open}
    RETURNING {columns}"""
CANCEL_CALL, CANCEL_REQUEST = (
    _REQUEST_CANCEL.replace("{which}", which)
    for which in ("id = %(id)s", "session_id = %(session_id)s AND request_key = %(request_key)s")
)
_FIND = "SELECT {columns} FROM mcp_app_call WHERE id = %(id)s"


_ASKING = "SELECT person, COUNT(*) FROM mcp_app_call WHERE {asking} GROUP BY person"


def in_states(states: Iterable[State]) -> str:
    """Return a condition with literal states.

    If they were parameters, SQLite would not use a partial index.
    """
    wanted = [f"state = '{state}'" for state in states]
    return f"({' OR '.join(wanted)})"


WAITING = in_states(Transition.START.before)
ASKING = f"{in_states([State.INPUT_REQUIRED])} AND lease_until IS NOT NULL"
_STATES = {
    "waiting": WAITING,
    "active": in_states(Transition.COMPLETE.before),
    "unstarted": in_states(UNSTARTED),
    "open": in_states(OPEN),
    "asking": ASKING,
}


def revocable() -> AbstractContextManager[None]:
    """Run a statement in a transaction, so that it has no effect if its caller stopped waiting.

    A context manager. A frozen PostgreSQL server executes the statements that were sent meanwhile when it
    wakes up. By then the call may have been refused or its claim abandoned. No commit follows, so the
    statement is rolled back. SQLite has no server and needs no transaction.
    """
    return transaction.atomic() if connection.vendor == "postgresql" else nullcontext()


def execute(sql: str, *, lease: float = 0.0, **values: Any) -> int:
    """Execute a statement whose placeholders are field names. Return the number of changed rows."""
    worded = _worded(connection.vendor, sql)
    with connection.cursor() as cursor:
        cursor.execute(worded, _stored(worded, values, lease))
        return int(cursor.rowcount)


def one(sql: str, *, lease: float = 0.0, **values: Any) -> Call | None:
    """Execute a statement that returns a row. Return the row with the time of reading, or None."""
    worded = _worded(connection.vendor, sql)
    with connection.cursor() as cursor:
        cursor.execute(worded, _stored(worded, values, lease))
        rows = cursor.fetchall()
    if not rows:
        return None
    row: Any = list(rows[0])
    for place, column, converters in _converted(connection.vendor):
        for convert in converters:
            row[place] = convert(row[place], column, connection)
    found = Call(*row[:-1])
    found.read_at = row[-1]
    return found


def find(call_id: UUID | str) -> Call | None:
    """Return the row with this id, or None."""
    return one(_FIND, id=call_id)


def asking() -> Counter[str]:
    """Return for each person the number of calls that wait for their clients in a worker process."""
    with connection.cursor() as cursor:
        cursor.execute(_ASKING.format(asking=ASKING))
        return Counter(dict(cursor.fetchall()))


_PLAIN = (CharField, TextField, IntegerField, FloatField, BooleanField)
_FIELDS = {field.name: field for field in Call._meta.concrete_fields}


def _stored(sql: str, values: dict[str, Any], lease: float) -> dict[str, Any]:
    database = connections[DEFAULT_DB_ALIAS]  # looked up once, not for each value
    stored = {
        name: _FIELDS[name].get_db_prep_save(value, database) if name in _FIELDS else value
        for name, value in values.items()
    }
    for name, plus in (("lease_now", 0.0), ("lease", lease)):
        if f"%({name})s" in sql:
            stored[name] = database_clock.lease_parameter(plus)
    return stored


@cache
def _worded(vendor: str, sql: str) -> str:
    now = database_clock.in_sql().replace("%s", "'0 seconds'")
    leases = {
        name: database_clock.lease_in_sql().replace("%s", f"%({name})s") for name in ("lease_now", "lease")
    }
    lock = "FOR UPDATE SKIP LOCKED" if vendor == "postgresql" else ""
    return sql.format(now=now, **leases, **_STATES, lock=lock, columns=f"{_columns(vendor)}, {now}")


def insert(row: Call, moments: Mapping[str, float | None], step: float = 0.0) -> Call:
    """Insert a row and return it as stored.

    ``moments`` maps fields to seconds, which are added to the database's time. With a ``step``, the row
    gets a start tag that is one step after the last call of its person. Raise IntegrityError. A surrounding
    transaction can still be used after that.
    """
    database, values = connections[DEFAULT_DB_ALIAS], dict[str, Any](step=step)
    for name, prepared in _prepared():
        if name in moments:
            values[name] = database_clock.seconds(moments[name])
        else:
            value = getattr(row, name)
            values[name] = value if prepared is None or value is None else prepared(value, database)
    around = transaction.atomic() if connection.in_atomic_block else revocable()
    sql = _insert(connection.vendor, tuple(moments), bool(step))
    with around, connection.cursor() as cursor:
        cursor.execute(sql, values)
        if step and connection.vendor == "postgresql":
            cursor.nextset()
        returned = cursor.fetchone()
    for name, moment in zip(moments, returned, strict=True):
        setattr(row, name, None if moment is None else database_clock.moment(moment))
    row.read_at = row.accepted_at
    return row


@cache
def _prepared() -> list[tuple[str, Any]]:
    """Return all fields, each with the function that prepares its values for the database, or None."""
    found = []
    for field in Call._meta.concrete_fields:
        kind = field.target_field if isinstance(field, ForeignKey) else field
        found.append((field.attname, None if isinstance(kind, _PLAIN) else field.get_db_prep_save))
    return found


@cache
def _insert(vendor: str, moments: tuple[str, ...], waits: bool) -> str:
    now = database_clock.in_sql()
    marks = {field.attname: f"%({field.attname})s" for field in Call._meta.concrete_fields}
    marks |= {name: now.replace("%s", marks[name]) for name in moments}
    before = ""
    if waits:
        marks["start_tag"] = fair_order.start_tag_sql(vendor)
        # Two statements in one message form a transaction. The second sees the rows for which the lock made
        # it wait.
        before = f"{fair_order.LOCK}; " if vendor == "postgresql" else ""
    values, returned = ", ".join(marks.values()), ", ".join(moments)
    return f"{before}INSERT INTO mcp_app_call ({_columns(vendor)}) VALUES ({values}) RETURNING {returned}"  # noqa: S608


@cache
def _columns(_vendor: str) -> str:
    return ", ".join(connection.ops.quote_name(str(field.column)) for field in Call._meta.concrete_fields)


@cache
def _converted(_vendor: str) -> list[tuple[int, Any, list[Any]]]:
    """Return the columns that need conversion, each with its place and its converters."""
    columns = [*(field.cached_col for field in Call._meta.concrete_fields), database_clock.now()]
    converters = [
        [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
        for column in columns
    ]
    return [(place, columns[place], functions) for place, functions in enumerate(converters) if functions]
