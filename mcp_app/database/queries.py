"""The database in threads of ours: Django looks after connections only around an HTTP request of its own.

Queries of the server itself run in a few threads that keep their connections (``query``, ``aquery``): opening
one takes longer than most queries. Threads that run other people's code keep theirs by stricter rules
(``threads.kept_connections``).
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

# As many connections as one process keeps at most.
THREADS = 8
# A caller that a locked table keeps waiting gets an error, and refuses its client or retries: eight that wait
# are all there are (R15). SQLite waits by its own setting, but for what ``aquery_soon`` asks.
LOCK_MILLISECONDS = 1_500
# Python's own patience with a locked SQLite file.
SQLITE_SECONDS = 5.0
# A process that stands still in a transaction keeps its locks no longer.
IDLE_MILLISECONDS = 5_000
CLOSING_SECONDS = 3.0

# A query that has waited longer for a thread is refused: its answer would be too late for the caller.
QUEUE_SECONDS = 5.0

log = logging.getLogger("mcp.database")

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def thread_connection() -> Iterator[None]:
    """Around what a thread asks of the database; as ``with`` or as a decorator.

    A connection that broke or grew too old meanwhile is not used again, and none outlives its use longer
    than ``CONN_MAX_AGE`` allows: one left in a thread would count against the database's limit.
    """
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


def query(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``function``, which queries the database, returns or raises. Blocks."""
    return _submit(partial(function, *args, **kwargs)).result()


async def aquery(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As ``query``, for async code."""
    return await asyncio.wrap_future(_submit(partial(function, *args, **kwargs)))


async def aquery_soon(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """As ``aquery``, for what a client is refused rather than waits for.

    A locked SQLite file is an error after ``LOCK_MILLISECONDS``, as PostgreSQL's locks are for all of ours.
    """
    return await asyncio.wrap_future(_submit(partial(function, *args, **kwargs), soon=True))


def later(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> None:
    """Have ``function`` write what nobody waits for; if the database is away it is lost, as the log says."""
    try:
        _submit(partial(function, *args, **kwargs)).add_done_callback(_regret)
    except OperationalError as away:
        log.warning("Not written: %s", away)


def _regret(done: Future[Any]) -> None:
    if (error := done.exception()) is not None:
        log.warning("Not written: %s", error)


def is_silent() -> bool:
    """Whether the database says nothing: what needs it is refused at once, until it answers again."""
    return _silence.lasts


def watch() -> None:
    """Have no wait of this process outlast a silence of the database: it is a server."""
    unresponsive.watch()


def close() -> None:
    """Close the connections that are kept; the next query opens one again. Blocks for seconds at most."""
    if _pool is not None:
        # Each thread can only close its own: all of them are needed at once, so that none closes twice.
        together = threading.Barrier(THREADS)
        # A thread that waits for a locked database closes its own when it is through.
        wait([_pool.submit(_close_own, together) for _ in range(THREADS)], CLOSING_SECONDS)


_silence = unresponsive.of(DEFAULT_DB_ALIAS)
_thread = threading.local()
_pool: ThreadPoolExecutor | None = None
_making = threading.Lock()


def _submit(function: Callable[[], T], *, soon: bool = False) -> Future[T]:
    if _silence.lasts:
        raise OperationalError(unresponsive.NOTHING)
    # In the caller's context, as in a thread of Django's own: the language, for example, is kept there.
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
    # At the driver: Django's cursor takes longer than many a query.
    driver.execute(f"PRAGMA busy_timeout = {LOCK_MILLISECONDS if soon else usual:.0f}").close()
    _thread.impatient = driver if soon else None


def _threads() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603 - made at the first use, which a fork must not inherit
    with _making:
        if _pool is None:
            _pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp-database", initializer=_keep)
        return _pool


def _keep() -> None:
    """Have this thread's connections kept, and looked at before each use: the database may have restarted."""
    _thread.connections = [(connection, _is_of_a_pool(connection)) for connection in connections.all()]
    default = connections[DEFAULT_DB_ALIAS]
    _thread.sqlite = default if default.vendor == "sqlite" else None
    _thread.impatient = None
    kept: dict[str, Any] = {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}
    for connection, is_pooled in _thread.connections:
        if not is_pooled:
            connection.settings_dict = {**connection.settings_dict, **kept}


def _is_of_a_pool(connection: Any) -> bool:
    """Whether the driver keeps the connections: each goes back to it at once, and as it was."""
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


@receiver(connection_created)
def _be_impatient(connection: Any, **_: Any) -> None:
    if (
        hasattr(_thread, "connections")
        and connection.vendor == "postgresql"
        and not _is_of_a_pool(connection)
        # The mark that Django asks for behind a pooler of transactions, where others would get what is set.
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
    """A forked child has none of its parent's threads, and must not talk on its parent's connections."""
    global _pool, _making
    _pool, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
