"""Django's backend (ENGINE = "mcp_app.postgresql"), with connections on which no wait is endless."""

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

# The least that the driver can: a server that does not even greet is silent.
CONNECT_SECONDS = 2
# A try to ask that got no answer is given up then, for its connection may be the one that is dead.
TRY_SECONDS = 2.0


class DatabaseSilent(psycopg.OperationalError):
    """What a wait ends with when the server says nothing, and what a new one is refused with."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose every wait ends when its server is found to be silent; it is closed then."""

    silence: Silence | None = None

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """As the driver's own, through which all that blocks goes: statements, commits, rows."""
        if self.silence is None or not unresponsive.is_watched():
            return super().wait(gen, *args, **options)
        try:
            return super().wait(self.silence.bounded(gen), *args, **options)
        except Silent:
            self.close()
            raise DatabaseSilent(NOTHING) from None


class _Driver(ModuleType):
    """psycopg as Django uses it; Django has no other way to set the class of its connections."""

    connect = staticmethod(WatchedConnection.connect)

    def __getattr__(self, name: str) -> Any:
        return getattr(psycopg, name)


class DatabaseWrapper(base.DatabaseWrapper):
    """A database that is refused at once while it is silent, and as soon as it becomes so."""

    Database = _Driver("psycopg")

    def get_connection_params(self) -> dict[str, Any]:
        """Django's, with an end of the wait for a connection."""
        return {"connect_timeout": CONNECT_SECONDS, **super().get_connection_params()}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """A connection; raises DatabaseSilent at once while the server is."""
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
        # Also on one that is made before this process is watched: it may be kept for long.
        connection.silence = watch
        return connection


class _Question(psycopg.Connection[Any]):
    """Of its own connection, each step of which ends by the clock."""

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
    """Whether the server says anything; that it takes no more connections is an answer, too."""
    try:
        with undivided(), closing(_Question.connect(**params)) as connection:
            connection.execute("SELECT 1")
    except (Silent, psycopg.errors.ConnectionTimeout):
        return False
    except psycopg.Error:
        pass
    return True
