"""Queries on the library's own threads: connections are reused, checked, closed and never inherited."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest
from django.db import DatabaseError, OperationalError, connection, connections, transaction
from django.utils import translation

from mcp_app.database import queries as database
from mcp_app.database import unresponsive
from mcp_app.database.queries import aquery, aquery_soon, query
from mcp_app.database.unresponsive import Silence
from mcp_app.models import CatalogueRevision

WHO: ContextVar[str] = ContextVar("who")
pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    database.close()
    yield
    database.close()


def _ask() -> object:
    """Return the driver connection after using it."""
    CatalogueRevision.objects.count()
    return connection.connection


async def test_function_that_raises_stop_iteration_fails() -> None:
    """Such an exception cannot be set on a future, so the caller waited for ever."""
    for ask in (aquery, aquery_soon):
        async with asyncio.timeout(10):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await ask(next, iter(()))


def _fail() -> None:
    connection.cursor().execute("SELECT nothing FROM nowhere")


def test_connections_are_reused() -> None:
    assert len({id(query(_ask)) for _ in range(5 * database.THREADS)}) <= database.THREADS


async def test_aquery_returns_values_and_raises_errors() -> None:
    assert await aquery(_ask) is not None
    with pytest.raises(DatabaseError):
        await aquery(_fail)
    assert await aquery(_ask) is not None


@pytest.mark.skipif(connection.vendor == "sqlite", reason="a connection to a file does not break")
def test_broken_connection_is_replaced_without_error() -> None:
    def breaks() -> object:
        broken = _ask()
        connection.connection.close()
        return broken

    broken = query(breaks)
    assert all(query(_ask) is not broken for _ in range(5 * database.THREADS))


def test_open_transaction_does_not_reach_next_query() -> None:
    query(transaction.set_autocommit, False)
    assert all(query(transaction.get_autocommit) for _ in range(5 * database.THREADS))


def test_query_after_close_opens_new_connection() -> None:
    before = query(_ask)
    database.close()
    assert all(query(_ask) is not before for _ in range(5 * database.THREADS))


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only a server has sessions")
@pytest.mark.parametrize(("is_behind_a_pooler", "timeout"), [(False, "1500ms"), (True, "0")])
def test_transaction_pooler_disables_session_settings(
    monkeypatch: pytest.MonkeyPatch, is_behind_a_pooler: bool, timeout: str
) -> None:
    def shown() -> str:
        with connection.cursor() as cursor:
            cursor.execute("SHOW lock_timeout")
            return str(cursor.fetchone()[0])

    monkeypatch.setattr(database, "_pool", None)
    monkeypatch.setitem(connections.settings["default"], "DISABLE_SERVER_SIDE_CURSORS", is_behind_a_pooler)
    assert query(shown) == timeout
    database.close()


def test_query_runs_in_context_of_caller() -> None:
    token = WHO.set("me")
    assert query(WHO.get) == "me"
    WHO.reset(token)


def test_query_uses_language_of_caller() -> None:
    with translation.override("de"):
        assert query(translation.get_language) == "de"


def test_thread_count_is_bounded_by_connection_limit() -> None:
    start = threading.Barrier(database.THREADS)
    asking = [threading.Thread(target=query, args=(start.wait, 5)) for _ in range(database.THREADS)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len([each for each in threading.enumerate() if each.name.startswith("mcp-database")]) == (
        database.THREADS
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_forked_child_queries_on_new_threads() -> None:
    assert query(threading.get_ident)
    child = os.fork()
    if child == 0:
        # A thread object inherited by the fork is not running and would never answer.
        os._exit(0 if query(lambda: 7) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_close_does_not_wait_for_hanging_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "CLOSING_SECONDS", 0.05)
    started, free = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        free.wait(10)

    hanging = threading.Thread(target=query, args=(hang,))
    hanging.start()
    started.wait(5)
    database.close()
    assert hanging.is_alive()
    free.set()
    hanging.join()


def test_query_queued_too_long_is_refused_without_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "QUEUE_SECONDS", -1.0)
    asked: list[int] = []
    with pytest.raises(DatabaseError, match="Too many queries"):
        query(asked.append, 1)
    assert asked == []


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silence]:
    """Watch for a silent database, as a server does."""
    monkeypatch.setattr(unresponsive, "_watched", True)
    connection.close()
    yield unresponsive.of(connection.alias)
    unresponsive.be_patient(patient=False)
    connection.close()


@pytest.mark.skipif(connection.vendor == "sqlite", reason="there is no server that could be silent")
def test_slow_statement_does_not_count_as_silence(watched: Silence) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_sleep(%s)", [2 * (unresponsive.SUSPECT_SECONDS + unresponsive.PROBE_SECONDS)]
        )
    assert not watched.lasts
    assert watched._answered_at > 0.0, "nobody asked whether it is one"


@pytest.mark.skipif(connection.vendor == "sqlite", reason="there is no server that could be silent")
def test_silent_database_refuses_queries_until_patient(
    watched: Silence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_asked_at", 0.0)
    with pytest.raises(OperationalError, match="does not respond"):
        query(_ask)
    with pytest.raises(OperationalError, match="does not respond"):
        _ask()
    unresponsive.be_patient(patient=True)
    assert _ask() is not None, "other people's code may wait"
