"""Database access from the server's own threads: Django manages connections only for HTTP requests.

Queries by the server itself run in a few threads with persistent connections (``query``, ``aquery``).
Opening a connection would take longer than most queries. Threads that run application code follow stricter
rules (``threads.reusable_connections``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.db import OperationalError, close_old_connections, connections
from django.db.backends.signals import connection_created
from django.db.utils import DEFAULT_DB_ALIAS
from django.dispatch import receiver

from mcp_app.database import unresponsive
from mcp_app.database.threads.context import run_in

# The maximum number of connections that one process opens for this.
THREADS = 8
# A query that waits for a locked table fails after this time, and its caller refuses the client or tries
# again. Otherwise eight waiting queries would occupy all threads (R15). SQLite uses its own setting, except
# in ``aquery_soon``.
LOCK_MILLISECONDS = 1_500
# Python's default timeout for a locked SQLite file.
SQLITE_SECONDS = 5.0
# The database aborts a transaction that is idle for this time, so that a frozen process loses its locks.
IDLE_MILLISECONDS = 5_000
CLOSING_SECONDS = 3.0

# A query that waits for a thread longer than this is refused, because its answer would be too late.
QUEUE_SECONDS = 5.0

log = logging.getLogger("mcp.database")

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def thread_connection() -> Iterator[None]:
    """Manage connections around a thread's use of the database.

    Works as a context manager and as a decorator. Connections that are broken or expired are not used
    again. No connection stays open longer than ``CONN_MAX_AGE`` allows, because connections of idle threads
    count against the limit of the database.
    """
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def query(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` in a database thread. Return its result or raise its exception. This blocks."""
    return _submit(partial(function, *args, **kwargs)).result()


async def aquery(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` as ``query`` does, for async code."""
    return await asyncio.wrap_future(_submit(partial(function, *args, **kwargs)))


async def aquery_soon(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` as ``aquery`` does, for requests that should rather be refused than delayed.

    If an SQLite file is locked, raise after ``LOCK_MILLISECONDS``, the limit that always applies on
    PostgreSQL here.
    """
    return await asyncio.wrap_future(_submit(partial(function, *args, **kwargs), soon=True))


def later(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
    """Run a write without waiting for it.

    If the database is unreachable, the write is lost and this is logged.
    """
    try:
        _submit(partial(function, *args, **kwargs)).add_done_callback(_regret)
    except OperationalError as away:
        log.warning("Database write failed: %s", away)


def _regret(done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        log.warning("Database write failed: %s", error)


def is_silent() -> bool:
    """Return True if the database is unresponsive. All queries are then refused at once."""
    return _silence.lasts


def watch() -> None:
    """Limit all waits of this process for an unresponsive database. Servers call this."""
    unresponsive.watch()


def close() -> None:
    """Close the persistent connections. The next query opens a new one. Blocks for up to CLOSING_SECONDS."""
    if _pool is not None:
        # Each thread can close only its own connections. The barrier keeps every thread busy, so that no
        # thread runs two of these functions.
        together = threading.Barrier(THREADS)
        # A thread that waits for a locked database closes its connections after that.
        wait([_pool.submit(_close_own, together) for _ in range(THREADS)], CLOSING_SECONDS)


_silence = unresponsive.of(DEFAULT_DB_ALIAS)
_thread = threading.local()
_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def _submit(function: Callable[[], T], *, soon: bool = False) -> Future[T]:
    if _silence.lasts:
        raise OperationalError(unresponsive.NOTHING)
    # In the context of the caller, as in Django's own threads. The context contains the active language,
    # for example.
    return (_pool or _threads()).submit(
        run_in, copy_context(), _work, function, time.monotonic() + QUEUE_SECONDS, soon
    )


def _work(function: Callable[[], T], until: float, soon: bool) -> T:
    if time.monotonic() > until:
        raise OperationalError("Too many queries wait for the database.")
    try:
        sqlite = _thread.sqlite
        if sqlite is not None and (sqlite.connection is _thread.impatient) != soon:
            _set_patience(sqlite, soon)
        return function()
    except StopIteration as end:
        # A future of asyncio refuses it, so the waiter would never wake. Coroutines convert it too (PEP 479).
        raise RuntimeError("The function raised StopIteration.") from end
    finally:
        for connection, is_pooled in _thread.connections:
            connection.health_check_done = False
            if connection.errors_occurred or not connection.autocommit or is_pooled:
                connection.close_if_unusable_or_obsolete()


def _set_patience(connection: Any, soon: bool) -> None:
    """Set how long this thread's SQLite connection waits for a locked file."""
    if soon:
        connection.ensure_connection()
    driver = connection.connection
    if driver is None:
        return
    usual = connection.settings_dict["OPTIONS"].get("timeout", SQLITE_SECONDS) * 1000
    # Use the driver, because Django's cursor takes longer than many queries.
    driver.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS if soon else usual:.0f}").close()
    _thread.impatient = driver if soon else None


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - made at the first use, which a fork must not inherit
    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp-database", initializer=_keep)
        return _pool


def _keep() -> None:
    """Make this thread's connections persistent. Each is checked before use."""
    _thread.connections = [(connection, _is_of_a_pool(connection)) for connection in connections.all()]
    default = connections[DEFAULT_DB_ALIAS]
    _thread.sqlite = default if default.vendor == "sqlite" else None
    _thread.impatient = None
    kept: dict[str, Any] = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
    for connection, is_pooled in _thread.connections:
        if not is_pooled:
            connection.settings_dict = {**connection.settings_dict, **kept}


def _is_of_a_pool(connection: Any) -> bool:
    """Return True if the driver pools its connections.

    Such a connection is given back after each use, unchanged.
    """
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


@receiver(connection_created)
def _be_impatient(connection: Any, **_: Any) -> None:
    if (
        hasattr(_thread, "connections")
        and connection.vendor == "postgresql"
        and not _is_of_a_pool(connection)
        # Django requires this setting behind a transaction pooler. There, session settings would affect
        # other clients.
        and not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    ):
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {LOCK_MILLISECONDS}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {IDLE_MILLISECONDS}")


def _close_own(together: threading.Barrier) -> None:
    with suppress(threading.BrokenBarrierError):
        together.wait(CLOSING_SECONDS)
    connections.close_all()


def _forget() -> None:
    """Reset the pool in a forked child, which has no threads and must not use the parent's connections."""
    global _pool, _making
    _pool, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
