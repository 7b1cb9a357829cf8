"""Connections of threads that run tools: kept, bounded, and never handed on with what a tool did to them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction
from django.db.utils import ConnectionDoesNotExist, load_backend
from django.utils import timezone, translation

from mcp_app.database import queries
from mcp_app.database.queries import aquery
from mcp_app.database.threads import kept_connections
from mcp_app.database.threads.kept_connections import may_outlast_work
from mcp_app.execution.calls.threads import Threads
from mcp_app.models import LogCursor
from tests.bounds import SLACK

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="only a server has sessions")
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="its driver shows all it is asked")
ROW = 2**40


@pytest.fixture(autouse=True)
def long_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a test may take longer than a connection lives."""
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 600.0)


@pytest.fixture(autouse=True)
def none_of_the_server() -> Iterator[None]:
    yield
    queries.close()


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    """One thread, so that each work meets the connection of the one before."""
    made = Threads(1)
    yield made
    await made.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5 + SLACK):
        while not condition():
            await asyncio.sleep(0.005)


def ask(sql: str = "SELECT 1", alias: str = "default") -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return None if cursor.description is None else cursor.fetchone()[0]


def used(alias: str = "default") -> object:
    """The driver's own connection, after it was used."""
    ask(alias=alias)
    return connections[alias].connection


def leave_autocommit_off() -> None:
    transaction.set_autocommit(False)
    LogCursor.objects.create(pk=ROW)


def leave_a_block_open() -> None:
    transaction.atomic().__enter__()
    LogCursor.objects.create(pk=ROW)


def leave_blocks_open() -> None:
    leave_a_block_open()
    transaction.atomic().__enter__()


def leave_a_broken_block_open() -> None:
    leave_a_block_open()
    with pytest.raises(DatabaseError):
        ask("SELECT nothing FROM nowhere")


def fail_in_a_block() -> None:
    with transaction.atomic():
        LogCursor.objects.create(pk=ROW)
        raise KeyError("expected")


def fail_with_a_block_open() -> None:
    leave_a_block_open()
    raise KeyError("expected")


def close_in_a_block() -> None:
    leave_a_block_open()
    connection.close()


def begin_by_hand() -> None:
    ask("BEGIN")
    LogCursor.objects.create(pk=ROW)


def begin_behind_django() -> None:
    used()
    connection.connection.execute("BEGIN")
    LogCursor.objects.create(pk=ROW)


def close_behind_django() -> None:
    used()
    connection.connection.close()


MISDEEDS = [
    leave_autocommit_off,
    leave_a_block_open,
    leave_blocks_open,
    leave_a_broken_block_open,
    fail_in_a_block,
    fail_with_a_block_open,
    close_in_a_block,
    begin_by_hand,
    begin_behind_django,
]


async def test_a_connection_is_kept_from_work_to_work(threads: Threads) -> None:
    first = await threads.run(used)
    assert [await threads.run(used) for _ in range(5)] == [first] * 5


@pytest.mark.parametrize("misdeed", MISDEEDS)
async def test_a_transaction_that_was_left_open_or_broken_does_not_reach_the_next_work(
    threads: Threads, misdeed: Callable[[], None]
) -> None:
    def state() -> tuple[bool, bool, bool]:
        return transaction.get_autocommit(), connection.in_atomic_block, connection.needs_rollback

    def write() -> None:
        with transaction.atomic():
            LogCursor.objects.create(pk=ROW + 1)

    await threads.run(used)
    await asyncio.gather(threads.run(misdeed), return_exceptions=True)
    assert await threads.run(state) == (True, False, False)
    assert not await threads.run(LogCursor.objects.filter(pk=ROW).exists)
    await threads.run(write)
    assert await threads.run(LogCursor.objects.filter(pk=ROW + 1).exists)


async def test_work_that_fails_in_its_own_block_keeps_the_connection(threads: Threads) -> None:
    first = await threads.run(used)
    with pytest.raises(KeyError):
        await threads.run(fail_in_a_block)
    assert await threads.run(used) is first


@on_postgresql
@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SET search_path TO pg_catalog", "search_path"),
        ("set time zone 'Asia/Tokyo'", "timezone"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "default_transaction_read_only"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
         "default_transaction_isolation"),
        ("SELECT set_config('app.user', '7', false)", "app.user"),
        ("SELECT 1; SET statement_timeout = 1000", "statement_timeout"),
        ("SET ROLE pg_monitor", "role"),
    ],
)  # fmt: skip
async def test_what_was_set_in_a_session_does_not_reach_the_next_work(
    threads: Threads, statement: str, shown: str
) -> None:
    value = f"SELECT current_setting('{shown}', true)"
    before = await threads.run(ask, value)
    await threads.run(ask, statement)
    assert (await threads.run(ask, value) or "") == (before or "")


@on_postgresql
async def test_neither_temporary_tables_nor_locks_nor_cursors_reach_the_next_work(threads: Threads) -> None:
    await threads.run(ask, "CREATE TEMP TABLE left_over (id int)")
    assert await threads.run(ask, "SELECT to_regclass('pg_temp.left_over')") is None
    await threads.run(ask, "SELECT pg_advisory_lock(4711)")
    await threads.run(ask, "DECLARE left_over CURSOR WITH HOLD FOR SELECT 1")
    assert await threads.run(ask, "SELECT count(*) FROM pg_cursors") == 0
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711"
    async with asyncio.timeout(5 + SLACK):  # The server ends a session a moment after it was left.
        while await threads.run(ask, held):
            await asyncio.sleep(0.005)


@on_postgresql
async def test_what_is_set_for_a_transaction_only_keeps_the_connection(threads: Threads) -> None:
    def for_one_transaction() -> None:
        with transaction.atomic():
            ask("SET LOCAL statement_timeout = 60000")
            ask("SET CONSTRAINTS ALL IMMEDIATE")

    first = await threads.run(used)
    await threads.run(for_one_transaction)
    assert await threads.run(used) is first
    assert await threads.run(ask, "SHOW statement_timeout") == "0"


@pytest.mark.parametrize(
    ("sql", "vendor", "outlasts"),
    [
        ("SELECT 1", "postgresql", False),
        ('(SELECT 1) UNION (SELECT 2) ORDER BY "a"', "postgresql", False),
        ("\n  insert into t values (%s) RETURNING id ;\n", "postgresql", False),
        ("UPDATE t SET search_path = 1", "postgresql", False),
        ('RELEASE SAVEPOINT "s1_x1"', "postgresql", False),
        ('ROLLBACK TO SAVEPOINT "s1_x1"', "postgresql", False),
        ("BEGIN IMMEDIATE", "sqlite", False),
        ("", "postgresql", False),
        ("BEGIN", "postgresql", True),
        ("set LOCAL statement_timeout = 1", "postgresql", False),
        ("SET LOCAL sort_buffer_size = 1", "mysql", True),
        ("PRAGMA foreign_keys = OFF", "sqlite", True),
        ("LISTEN news", "postgresql", True),
        ("SELECT 1; LISTEN news", "postgresql", True),
        ("SELECT SET_CONFIG(%s, %s, false)", "postgresql", True),
        ("SELECT pg_try_advisory_lock(1)", "postgresql", True),
        ("SELECT pg_advisory_xact_lock(1)", "postgresql", False),
        (b"SELECT 1", "postgresql", True),
    ],
)
def test_statements_that_may_outlast_work_are_told_from_those_of_the_orm(
    sql: Any, vendor: str, outlasts: bool
) -> None:
    assert may_outlast_work(sql, vendor) is outlasts


@on_postgresql
async def test_what_receivers_of_the_project_set_belongs_to_every_connection(threads: Threads) -> None:
    from django.db.backends.signals import connection_created

    def prepare(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 54321")

    # As apps do it when they are ready, which is before any thread.
    connection_created.disconnect(dispatch_uid=kept_connections.__name__)
    connection_created.connect(prepare)
    try:
        first = await threads.run(used)
        assert await threads.run(used) is first
        assert await threads.run(ask, "SHOW statement_timeout") == "54321ms"
    finally:
        connection_created.disconnect(prepare)


@on_postgresql
async def test_a_connection_that_the_server_ended_is_replaced_without_an_error(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "TRUSTED_SECONDS", -1.0)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    assert await threads.run(ask, "SELECT pg_backend_pid()") != ended


@on_postgresql
async def test_a_connection_that_ends_just_after_its_use_costs_one_work_an_error_at_most(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "TRUSTED_SECONDS", 600.0)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    with pytest.raises(DatabaseError):
        await threads.run(ask)
    assert await threads.run(ask) == 1


@on_postgresql
async def test_a_connection_that_work_closed_behind_django_is_replaced(threads: Threads) -> None:
    await threads.run(close_behind_django)
    assert await threads.run(ask) == 1


@on_postgresql
async def test_projects_that_check_the_health_of_connections_have_it_checked_at_each_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "TRUSTED_SECONDS", 600.0)
    monkeypatch.setitem(connections.settings["default"], "CONN_HEALTH_CHECKS", True)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    assert await threads.run(ask) == 1


async def test_an_unused_connection_is_closed_by_its_thread_after_its_time(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 0.05)

    def wrapper() -> Any:
        ask()
        return connections["default"]

    kept = await threads.run(wrapper)
    await until(lambda: kept.connection is None)
    assert await threads.run(ask) == 1


@pytest.mark.parametrize("most", [600, None])
async def test_a_longer_conn_max_age_of_the_project_is_respected(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    monkeypatch.setattr(kept_connections, "KEPT_SECONDS", 0.0)
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", most)
    first = await threads.run(used)
    assert await threads.run(used) is first


async def test_without_autocommit_a_connection_and_its_transaction_end_with_the_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "AUTOCOMMIT", False)
    first = await threads.run(used)
    assert await threads.run(used) is not first


@on_sqlite
async def test_connections_are_asked_nothing_but_what_work_asks(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler of transactions, a setting of ours would reach the sessions of others."""
    monkeypatch.setattr(kept_connections, "TRUSTED_SECONDS", 600.0)
    asked: list[str] = []

    def trace() -> None:
        used()
        connection.connection.set_trace_callback(asked.append)

    await threads.run(trace)
    for number in range(5):
        await threads.run(ask, f"SELECT {number}")
    assert asked == [f"SELECT {number}" for number in range(5)]


async def test_each_database_of_a_project_has_a_connection_that_is_kept_by_itself(
    threads: Threads, tmp_path: Path
) -> None:
    settings = {
        **connections.settings["default"],
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(tmp_path / "second.sqlite3"),
        "OPTIONS": {},
    }

    def second(sql: str = "SELECT 1") -> tuple[object, Any]:
        try:
            connections["second"]
        except ConnectionDoesNotExist:
            connections["second"] = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "second")
        return connections["second"].connection, ask(sql, "second")

    await threads.run(second)
    first, (other, _) = await threads.run(used), await threads.run(second)
    assert (await threads.run(used), (await threads.run(second))[0]) == (first, other)
    await threads.run(second, "PRAGMA foreign_keys = OFF")
    assert await threads.run(used) is first
    assert await threads.run(second, "PRAGMA foreign_keys") == (None, 1)


@on_postgresql
async def test_a_thousand_works_at_once_have_as_many_connections_as_threads_and_leave_none() -> None:
    threads = Threads(8)
    # Of clients: the server's own, as that of its vacuum, come and go.
    everybody = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    before = await aquery(ask, everybody)

    def work() -> tuple[int, int]:
        LogCursor.objects.filter(pk=ROW).exists()
        return ask("SELECT pg_backend_pid()"), ask(everybody)

    found = await asyncio.gather(*(threads.run(work) for _ in range(1_000)))
    pids = {pid for pid, _ in found}
    assert len(pids) <= 8
    assert max(count for _, count in found) <= before + 8
    await threads.close()
    left = f"SELECT count(*) FROM pg_stat_activity WHERE pid IN ({', '.join(map(str, pids))})"
    async with asyncio.timeout(5 + SLACK):  # The server notices a moment after a connection was closed.
        while await aquery(ask, left):
            await asyncio.sleep(0.005)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_child_that_work_forks_neither_uses_nor_ends_its_parents_connection(threads: Threads) -> None:
    def fork() -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if used() is not first else 2
                connections.close_all()
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    first = await threads.run(used)
    assert await threads.run(fork) == 0
    assert await threads.run(used) is first


async def test_language_and_time_zone_are_those_of_the_caller_and_end_with_the_work(threads: Threads) -> None:
    def seen() -> tuple[str, str]:
        return translation.get_language(), timezone.get_current_timezone_name()

    def change() -> None:
        translation.activate("fr")
        timezone.activate("Asia/Tokyo")

    before = seen()
    with translation.override("de"), timezone.override("Europe/Vienna"):
        assert await threads.run(seen) == ("de", "Europe/Vienna")
        await threads.run(change)
        assert await threads.run(seen) == ("de", "Europe/Vienna")
    assert await threads.run(seen) == before


async def test_connections_of_other_threads_are_left_alone(threads: Threads) -> None:
    def opened() -> tuple[int, bool]:
        ask()
        try:
            return len(connection.execute_wrappers), connection.health_check_enabled
        finally:
            connection.close()

    assert await threads.run(opened) == (1, True)
    assert await asyncio.to_thread(opened) == (0, False)
