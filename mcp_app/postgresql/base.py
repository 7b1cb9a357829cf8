"""Django's PostgreSQL backend (ENGINE = "mcp_app.postgresql") with limited waits on all connections."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from types import ModuleType
from typing import Any

import psycopg
from django.db.backends.postgresql import base

from mcp_app.database import unresponsive
from mcp_app.database.forking import undivided
from mcp_app.database.unresponsive import NOTHING, Silence, Silent

# The lowest value that the driver allows. A server that does not greet within this time is unresponsive.
CONNECT_SECONDS = 2
# Limit for each step of a probe, because the server may not answer the probe either.
TRY_SECONDS = 2.0


class DatabaseSilent(psycopg.OperationalError):
    """The database server is unresponsive, so a wait was ended or a new connection refused."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that ends its waits and is closed if its server is found to be unresponsive."""

    silence: Silence | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait as the driver's method does.

        All blocking calls use it: statements, commits and reads of rows.
        """
        if self.silence is None or not unresponsive.is_watched():
            return super().wait(gen, *args, **options)
        try:
            return super().wait(self.silence.bounded(gen), *args, **options)
        except Silent:
            self.close()
            raise DatabaseSilent(NOTHING) from None


class _Driver(ModuleType):
    """A replacement for psycopg in Django, which has no other way to set the class of connections."""

    connect = staticmethod(WatchedConnection.connect)

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)


class DatabaseWrapper(base.DatabaseWrapper):
    """A database connection that is refused or ended while the server is unresponsive."""

    Database = _Driver("psycopg")

    def get_connection_params(self) -> dict[str, Any]:
        """Add a connect timeout to Django's parameters."""
        return {"connect_timeout": CONNECT_SECONDS, **super().get_connection_params()}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a new connection. Raise DatabaseSilent at once while the server is unresponsive."""
        watch = unresponsive.of(self.alias)
        if unresponsive.is_watched() and watch.lasts:
            raise DatabaseSilent(NOTHING)
        watch.answers = partial(_answers, conn_params)
        try:
            connection = super().get_new_connection(conn_params)
        except psycopg.errors.ConnectionTimeout:
            if unresponsive.is_watched():
                watch.found()
            raise
        # Attach the watch even if this process does not watch the database yet. It may start to do so while
        # the connection is open.
        connection.silence = watch
        return connection


class _Question(psycopg.Connection[Any]):
    """The connection of a probe. Each of its steps has a time limit."""

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        return super().wait(_until(time.monotonic() + TRY_SECONDS, gen), *args, **options)


def _until(end: float, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    try:
        wants = next(work)
        while True:
            ready = yield wants
            if not ready and time.monotonic() > end:
                raise Silent
            wants = work.send(ready)
    except StopIteration as done:
        return done.value


def _answers(params: dict[str, Any]) -> bool:
    """Return True if the server responds in any way. A refused connection counts as a response."""
    try:
        with undivided(), closing(_Question.connect(**params)) as connection:
            connection.execute("SELECT 1")
    except (Silent, psycopg.errors.ConnectionTimeout):
        return False
    except psycopg.Error:
        pass
    return True
