"""Fill a database with two weeks of generated traffic: messages, sessions, calls, counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Model
from django.utils import timezone

from benchmarks.log.fill_beside import fill_beside
from mcp_app.message_log.counts.callers import MOST_NAMES
from mcp_app.message_log.counts.error_groups import MOST_GROUPS
from mcp_app.models import (
    Call,
    CallerRollup,
    ErrorGroup,
    ErrorHour,
    LogMinute,
    Message,
    Rollup,
    Session,
)
from mcp_app.models.rollup import BUCKET_COLUMNS

DAYS = 13
PER_SESSION = 50
PER_CALL = 100
# One session and one principal own a tenth of all rows. The number of tool names is the limit of named
# counts.
BIG = f"{0:032x}"
TOOLS = 100
STEP = 500_000


class Words:
    """The SQL expressions that differ between the two databases."""

    def __init__(self) -> None:
        self.postgres = connection.vendor == "postgresql"

    def numbers(self, first: int, last: int) -> str:
        """Return a table ``numbers`` of n from first to last."""
        if self.postgres:
            return f"numbers(n) AS (SELECT * FROM generate_series({first}::bigint, {last}))"
        return (
            f"RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"
        )

    def at(self, seconds: str) -> str:
        """Return the timestamp of that many seconds after 1970."""
        if self.postgres:
            return f"to_timestamp({seconds})"
        # As Django writes it: without a fraction at a full second, else equal times would have different
        # texts.
        exact = f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch') || '000'"
        return f"replace({exact}, '.000000', '')"

    def literal(self, value: object) -> str:
        """Return a Python value as SQL literal: text, number, boolean, or JSON."""
        if isinstance(value, bool):
            return str(value if self.postgres else int(value))
        if isinstance(value, int | float):
            return str(value)
        text = value if isinstance(value, str) else json.dumps(value)
        return "'" + text.replace("'", "''") + "'"

    def hexadecimal(self, number: str) -> str:
        """Return a session id."""
        if self.postgres:
            return f"lpad(to_hex(({number})::bigint), 32, '0')"
        return f"printf('%032x', {number})"

    def text(self, number: str) -> str:
        """Return a number as text."""
        return f"CAST({number} AS text)"


def scrambled(salt: int, below: int) -> str:
    """Return a deterministic pseudo-random number below ``below``."""
    return f"CAST((n * 7919 + {salt}) * 104729 % 1000003 % {below} AS integer)"


@contextmanager
def without_indexes() -> Iterator[None]:
    """Drop the indexes inside the block: rebuilding them takes a tenth of the time of updating them."""
    with connection.schema_editor() as editor:
        for index in Message._meta.indexes:
            editor.remove_index(Message, index)
    yield
    with connection.schema_editor() as editor:
        for index in Message._meta.indexes:
            editor.add_index(Message, index)


def fill(messages: int, told: Callable[[str, float], None]) -> None:
    """Create all rows and report the seconds for each kind."""
    root = get_user_model().objects.create_superuser("root", "root@example.com", "unusable")
    now = int(time.time())
    begun = now - DAYS * 86_400
    words = Words()
    for name, work in (
        ("messages", lambda: _messages(words, messages, begun, now)),
        ("sessions", lambda: _sessions(words, messages // PER_SESSION, messages, begun, now, root.pk)),
        ("calls", lambda: _calls(words, messages // PER_CALL, begun, now)),
        ("rollups", lambda: _rollups(words, now)),
        ("caller rollups", lambda: _caller_rollups(words, now)),
        ("errors", lambda: _errors(words, messages, now)),
        ("minutes", _minutes),
        ("people and entries", lambda: fill_beside(root, TOOLS)),
    ):
        before = time.monotonic()
        work()
        told(name, time.monotonic() - before)
    if words.postgres:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _messages(words: Words, count: int, begun: int, now: int) -> None:
    spread = (now - begun) / count
    session = f"CASE WHEN n % 10 = 0 THEN 0 ELSE 1 + n / {PER_SESSION} END"
    kind = scrambled(1, 100)
    tool = f"{scrambled(2, TOOLS)} * {scrambled(3, TOOLS)} / {TOOLS}"
    owner = words.text(f"n / {PER_SESSION} % 500")
    columns = (
        "session_id, at, direction, kind, method, request_id, target, payload, answer, outcome, code, "
        "duration_ms, principal, process, skipped"
    )
    values = f"""
        {words.hexadecimal(session)}, {words.at(f"{begun} + n * {spread:.9f}")}, 'in', 'request',
        CASE WHEN {kind} < 70 THEN 'tools/call' WHEN {kind} < 80 THEN 'tools/list'
             WHEN {kind} < 90 THEN 'ping' ELSE 'resources/read' END,
        {words.text("n % 100000")},
        CASE WHEN {kind} < 70 THEN 'tool_' || {words.text(tool)}
             WHEN {kind} < 90 THEN '' ELSE 'notes://' || {words.text(scrambled(4, 5000))} END,
        '{{"jsonrpc":"2.0","id":' || {words.text("n")} || ',"method":"tools/call","params":{{"name":"tool",'
            || '"arguments":{{"text":"some words that a client asked with","number":'
            || {words.text(scrambled(5, 100000))} || ',"token":"[redacted]"}}}}}}',
        '{{"jsonrpc":"2.0","id":' || {words.text("n")} || ',"result":{{"content":[{{"type":"text","text":"'
            || substr('{"an answer of some length, as tools give them; " * 160}', 1,
                      CASE WHEN {kind} BETWEEN 70 AND 79 THEN 7000 ELSE 40 + {scrambled(6, 600)} END)
            || '"}}]}}}}',
        CASE WHEN {scrambled(7, 1000)} < 10 THEN 'tool_error' WHEN {scrambled(7, 1000)} < 15 THEN 'error'
             WHEN {scrambled(7, 1000)} < 16 THEN 'cancelled' ELSE 'ok' END,
        NULL, 0.2 + {scrambled(8, 2000)} / 10.0,
        CASE WHEN n % 10 = 0 THEN 'user:1/key:1' ELSE 'user:' || {owner} || '/key:1' END,
        'host:' || {words.text("n % 4")}, 0"""
    with without_indexes():
        for first in range(1, count + 1, STEP):
            last = min(first + STEP - 1, count)
            _insert(words, Message, columns, values, last + 1, first)


def _insert(words: Words, model: type[Model], columns: str, values: str, end: int, first: int = 0) -> None:
    """Insert rows of a model. Other columns have their defaults, as in rows that the server writes."""
    named = {name.strip('" ') for name in columns.split(",")}
    fields = [field for field in model._meta.concrete_fields if field.column not in named]
    rest = [field for field in fields if not (field.null or field.primary_key or field.has_db_default())]
    columns = ", ".join([columns, *(field.column for field in rest)])
    values = ", ".join([values, *(words.literal(field.get_default()) for field in rest)])
    table, numbers = model._meta.db_table, words.numbers(first, end - 1)
    if words.postgres:
        _execute(f"WITH {numbers} INSERT INTO {table} ({columns}) SELECT {values} FROM numbers")
    else:
        _execute(f"INSERT INTO {table} ({columns}) WITH {numbers} SELECT {values} FROM numbers")


def _sessions(words: Words, count: int, messages: int, begun: int, now: int, user: int) -> None:
    spread = (now - begun) / count
    at = f"{begun} + n * {spread:.6f}"
    seen = f"CASE WHEN n = 0 THEN {now} ELSE {at} + 600 END"
    _insert(
        words, Session,
        "id, principal, user_id, protocol_version, client_name, client_version, fields, address, created_at, "
        "last_seen_at, ended_at, end_reason, messages_logged",
        f"""{words.hexadecimal("n")}, 'user:' || {words.text("n % 500")} || '/key:1', {user},
        CASE n % 3 WHEN 0 THEN '2025-11-25' WHEN 1 THEN '2025-06-18' ELSE '2025-03-26' END,
        CASE n % 4 WHEN 0 THEN 'claude-code' WHEN 1 THEN 'Visual Studio Code'
             WHEN 2 THEN 'cursor' ELSE 'codex' END,
        '2.' || {words.text("n % 7")}, '{{}}', '127.0.0.1', {words.at(at)}, {words.at(seen)},
        CASE WHEN n > 0 AND n < {int(count * 0.998)} THEN {words.at(f"{at} + 900")} END, '',
        CASE WHEN n = 0 THEN {messages // 10} ELSE {PER_SESSION} END""",
        count,
    )  # fmt: skip


def _calls(words: Words, count: int, begun: int, now: int) -> None:
    at = f"{begun} + n * {(now - begun) / count:.6f}"
    state = f"CASE WHEN n >= {count - 40} THEN 'running' WHEN n % 50 = 1 THEN 'failed' ELSE 'completed' END"
    call_id = words.hexadecimal("n")
    if words.postgres:
        call_id = f"CAST({call_id} AS uuid)"
    session = words.hexadecimal(f"n * {PER_CALL // PER_SESSION}")
    _insert(
        words, Call,
        "id, session_id, request_id, request_key, principal, api_key_id, tool, arguments, digest, meta, "
        "session_fields, stream, state, attempt, max_attempts, timeout, queue, priority, accepted_at, "
        "started_at, finished_at, worker, cancel_reason, message, outcome, answer, published",
        f"""{call_id}, {session}, {words.text("n")}, {words.text("n")},
        'user:' || {words.text("n % 500")} || '/key:1', 1, 'tool_' || {words.text(f"n % {TOOLS}")},
        '{{"text":"hi"}}', 'd', '{{}}', '{{}}', 'call', {state}, 1, 1, 60,
        'celery', 0, {words.at(at)}, {words.at(at)},
        CASE WHEN n < {count - 40} THEN {words.at(f"{at} + 3")} END, 'host:1', '', '',
        CASE WHEN n >= {count - 40} THEN '' WHEN n % 50 = 1 THEN 'tool_error' ELSE 'ok' END,
        '{"an answer " * 60}', {"true" if words.postgres else "1"}""",
        count,
    )  # fmt: skip


def _rollups(words: Words, now: int) -> None:
    """Insert every tool in every row of every period: the maximum that the first page can load."""
    every = f"n % {TOOLS * 3 + 3}"  # three outcomes of each tool, then of all
    for span, seconds in ((60, 6 * 3_600), (600, 2 * 86_400), (3_600, 20 * 86_400), (86_400, 20 * 86_400)):
        rows = seconds // span
        first = now // span * span - (rows - 1) * span
        outcome = "CASE n % 3 WHEN 0 THEN 'ok' WHEN 1 THEN 'tool_error' ELSE 'error' END"
        buckets = ", ".join(str(1 + place % 4) for place in range(len(BUCKET_COLUMNS)))
        _insert(
            words, Rollup,
            f'span, at, method, tool, outcome, "count", skipped, ms, {", ".join(BUCKET_COLUMNS)}',
            f"""{span}, {words.at(f"{first} + n / {TOOLS * 3 + 3} * {span}")}, 'tools/call',
            CASE WHEN {every} < 3 THEN '' ELSE 'tool_' || {words.text(f"({every}) / 3 - 1")} END,
            {outcome}, 30, 0, 900.0, {buckets}""",
            rows * (TOOLS * 3 + 3),
        )  # fmt: skip
        assert Rollup.objects.filter(span=span, at=datetime.fromtimestamp(first, UTC)).exists()


def _caller_rollups(words: Words, now: int) -> None:
    """Insert the maximum of named clients and principals in each row of each period."""
    names = MOST_NAMES * 2
    for span, seconds in ((600, 8 * 86_400), (3_600, 20 * 86_400), (86_400, 20 * 86_400)):
        rows = seconds // span
        first = now // span * span - (rows - 1) * span
        buckets = ", ".join(str(1 + place % 4) for place in range(len(BUCKET_COLUMNS)))
        _insert(
            words, CallerRollup,
            f'span, at, kind, name, outcome, "count", {", ".join(BUCKET_COLUMNS)}',
            f"""{span}, {words.at(f"{first} + n / {names} * {span}")},
            CASE WHEN n % 2 = 0 THEN 'client' ELSE 'principal' END,
            CASE WHEN n % 2 = 0 THEN 'client ' || {words.text(f"n % {names} / 2")}
                 ELSE 'user:' || {words.text(f"n % {names} / 2")} || '/key:1' END,
            'ok', 30, {buckets}""",
            rows * names,
        )  # fmt: skip
        assert CallerRollup.objects.filter(span=span, at=datetime.fromtimestamp(first, UTC)).exists()


def _errors(words: Words, messages: int, now: int) -> None:
    """Insert the maximum number of groups, each with errors in every hour of the last week."""
    tool = f"'tool_' || {words.text(f'n % {TOOLS}')}"
    _insert(
        words, ErrorGroup,
        "digest, method, tool, outcome, words, example, first_at, last_at, first_id, last_id, count",
        f"""{words.hexadecimal("n")}, 'tools/call', {tool}, 'tool_error', 'Nothing: … ' || {words.text("n")},
        'Nothing: 4711', {words.at(f"{now - 86_400 * 2} + n * 170")}, {words.at(f"{now} - n")},
        1, {messages}, n + 7""",
        MOST_GROUPS,
    )  # fmt: skip
    hour = now // 3_600 * 3_600
    _insert(
        words, ErrorHour, "group_id, at, count",
        f"{words.hexadecimal('n / 168')}, {words.at(f'{hour} - n % 168 * 3600')}, 1 + n % 9",
        MOST_GROUPS * 168,
    )  # fmt: skip


def _minutes() -> None:
    minute = "date_trunc('minute', at)" if connection.vendor == "postgresql" else "substr(at, 1, 17) || '00'"
    _execute(
        "INSERT INTO mcp_app_logminute (at, first_id, last_id) "
        f"SELECT {minute}, min(id), max(id) FROM mcp_app_message GROUP BY 1"
    )


def counts() -> dict[str, int]:
    """Return the number of rows of each kind."""
    return {model.__name__: model.objects.count() for model in (Message, Session, Call, Rollup, LogMinute)}


def some_time(hours: float) -> str:
    """Return the time that many hours ago, formatted for a form."""
    return f"{timezone.now() - timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}"
