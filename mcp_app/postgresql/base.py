"""Django's PostgreSQL backend (ENGINE = "mcp_app.postgresql") with bounded waits on all connections."""

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

# The driver's minimum: a server that does not even greet is unresponsive.
CONNECT_SECONDS = 2
# Limit of one probe: its connection may be the dead one.
TRY_SECONDS = 2.0


class DatabaseSilent(psycopg.OperationalError):
    """The database server is unresponsive: a wait was ended, or a new one refused."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose waits end, and which is closed, when its server is found unresponsive."""

    silence: Silence | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait as the driver's method does, which all blocking calls use: statements, commits, rows."""
        if self.silence is None or not unresponsive.is_watched():
            return super().wait(gen, *args, **options)
        try:
            return super().wait(self.silence.bounded(gen), *args, **options)
        except Silent:
            self.close()
            raise DatabaseSilent(NOTHING) from None


class _Driver(ModuleType):
    """psycopg for Django, which has no other way to set the class of its connections."""

    connect = staticmethod(WatchedConnection.connect)

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)


class DatabaseWrapper(base.DatabaseWrapper):
    """A database connection that is refused, or ended, while the server is unresponsive."""

    Database = _Driver("psycopg")

    def get_connection_params(self) -> dict[str, Any]:
        """Add a connect timeout to Django's parameters."""
        return {"connect_timeout": CONNECT_SECONDS, **super().get_connection_params()}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Return a connection; raise DatabaseSilent immediately while the server is unresponsive."""
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
        # Also set before this process is watched: the connection may be reused for long.
        connection.silence = watch
        return connection


class _Question(psycopg.Connection[Any]):
    """A connection for a probe, each step of which has a time limit."""

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
    """Return True if the server responds at all; refusing further connections counts as a response."""
    try:
        with undivided(), closing(_Question.connect(**params)) as connection:
            connection.execute("SELECT 1")
    except (Silent, psycopg.errors.ConnectionTimeout):
        return False
    except psycopg.Error:
        pass
    return True
