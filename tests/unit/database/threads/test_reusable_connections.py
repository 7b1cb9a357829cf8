"""Connections of tool threads: reused, bounded, and never passed on with changed session state."""

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
from mcp_app.database.threads import reusable_connections
from mcp_app.database.threads.reusable_connections import may_outlast_work
from mcp_app.execution.calls.threads import Threads
from mcp_app.models import LogCursor
from tests.bounds import SLACK

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
on_postgresql = pytest.mark.skipif(connection.vendor != "postgresql", reason="only a server has sessions")
on_sqlite = pytest.mark.skipif(connection.vendor != "sqlite", reason="its driver shows all it is asked")
ROW = 2**40


@pytest.fixture(autouse=True)
def long_lived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the connection lifetime: on a busy machine a test may outlast the default."""
    monkeypatch.setattr(reusable_connections, "KEPT_SECONDS", 600.0)


@pytest.fixture(autouse=True)
def none_of_the_server() -> Iterator[None]:
    yield
    queries.close()


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    """Use one thread, so that each piece of work meets the connection of the previous one."""
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
    """Return the driver connection after using it."""
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


async def test_connection_is_reused_across_work(threads: Threads) -> None:
    first = await threads.run(used)
    assert [await threads.run(used) for _ in range(5)] == [first] * 5


@pytest.mark.parametrize("misdeed", MISDEEDS)
async def test_open_or_broken_transaction_does_not_reach_next_work(
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


async def test_failure_inside_atomic_block_keeps_connection(threads: Threads) -> None:
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
async def test_session_settings_do_not_reach_next_work(threads: Threads, statement: str, shown: str) -> None:
    value = f"SELECT current_setting('{shown}', true)"
    before = await threads.run(ask, value)
    await threads.run(ask, statement)
    assert (await threads.run(ask, value) or "") == (before or "")


@on_postgresql
async def test_temporary_tables_locks_and_cursors_do_not_reach_next_work(threads: Threads) -> None:
    await threads.run(ask, "CREATE TEMP TABLE left_over (id int)")
    assert await threads.run(ask, "SELECT to_regclass('pg_temp.left_over')") is None
    await threads.run(ask, "SELECT pg_advisory_lock(4711)")
    await threads.run(ask, "DECLARE left_over CURSOR WITH HOLD FOR SELECT 1")
    assert await threads.run(ask, "SELECT count(*) FROM pg_cursors") == 0
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711"
    async with asyncio.timeout(5 + SLACK):  # The server ends a session shortly after its connection closes.
        while await threads.run(ask, held):
            await asyncio.sleep(0.005)


@on_postgresql
async def test_transaction_local_settings_keep_connection(threads: Threads) -> None:
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
def test_may_outlast_work_separates_session_statements_from_orm_queries(
    sql: Any, vendor: str, outlasts: bool
) -> None:
    assert may_outlast_work(sql, vendor) is outlasts


@on_postgresql
async def test_settings_of_connection_created_receivers_persist(threads: Threads) -> None:
    from django.db.backends.signals import connection_created

    def prepare(connection: Any, **_: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = 54321")

    # Apps connect receivers in ready(), before any thread starts.
    connection_created.disconnect(dispatch_uid=reusable_connections.__name__)
    connection_created.connect(prepare)
    try:
        first = await threads.run(used)
        assert await threads.run(used) is first
        assert await threads.run(ask, "SHOW statement_timeout") == "54321ms"
    finally:
        connection_created.disconnect(prepare)


@on_postgresql
async def test_connection_ended_by_server_is_replaced_without_error(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reusable_connections, "TRUSTED_SECONDS", -1.0)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    assert await threads.run(ask, "SELECT pg_backend_pid()") != ended


@on_postgresql
async def test_trusted_connection_ended_by_server_fails_one_work_only(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reusable_connections, "TRUSTED_SECONDS", 600.0)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    with pytest.raises(DatabaseError):
        await threads.run(ask)
    assert await threads.run(ask) == 1


@on_postgresql
async def test_connection_closed_outside_django_is_replaced(threads: Threads) -> None:
    await threads.run(close_behind_django)
    assert await threads.run(ask) == 1


@on_postgresql
async def test_conn_health_checks_verify_connection_before_each_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reusable_connections, "TRUSTED_SECONDS", 600.0)
    monkeypatch.setitem(connections.settings["default"], "CONN_HEALTH_CHECKS", True)
    ended = await threads.run(ask, "SELECT pg_backend_pid()")
    await aquery(ask, f"SELECT pg_terminate_backend({ended}, 5000)")
    assert await threads.run(ask) == 1


async def test_idle_connection_is_closed_by_its_thread(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reusable_connections, "KEPT_SECONDS", 0.05)

    def wrapper() -> Any:
        ask()
        return connections["default"]

    kept = await threads.run(wrapper)
    await until(lambda: kept.connection is None)
    assert await threads.run(ask) == 1


@pytest.mark.parametrize("most", [600, None])
async def test_longer_conn_max_age_is_respected(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    monkeypatch.setattr(reusable_connections, "KEPT_SECONDS", 0.0)
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", most)
    first = await threads.run(used)
    assert await threads.run(used) is first


async def test_connection_without_autocommit_is_closed_after_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "AUTOCOMMIT", False)
    first = await threads.run(used)
    assert await threads.run(used) is not first


@on_sqlite
async def test_connection_receives_only_statements_of_work(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a transaction pooler, a session setting would reach sessions of other clients."""
    monkeypatch.setattr(reusable_connections, "TRUSTED_SECONDS", 600.0)
    asked: list[str] = []

    def trace() -> None:
        used()
        connection.connection.set_trace_callback(asked.append)

    await threads.run(trace)
    for number in range(5):
        await threads.run(ask, f"SELECT {number}")
    assert asked == [f"SELECT {number}" for number in range(5)]


async def test_each_database_alias_has_its_own_connection(threads: Threads, tmp_path: Path) -> None:
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
async def test_thousand_concurrent_works_use_few_connections_and_close_them() -> None:
    threads = Threads(8)
    # Client backends only: server processes such as autovacuum come and go.
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
    async with asyncio.timeout(5 + SLACK):  # The server ends a session shortly after its connection closes.
        while await aquery(ask, left):
            await asyncio.sleep(0.005)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_forked_child_neither_uses_nor_ends_parent_connection(threads: Threads) -> None:
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


async def test_language_and_time_zone_follow_caller_and_reset_after_work(threads: Threads) -> None:
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


async def test_connections_of_other_threads_are_unchanged(threads: Threads) -> None:
    def opened() -> tuple[int, bool]:
        ask()
        try:
            return len(connection.execute_wrappers), connection.health_check_enabled
        finally:
            connection.close()

    assert await threads.run(opened) == (1, True)
    assert await asyncio.to_thread(opened) == (0, False)
