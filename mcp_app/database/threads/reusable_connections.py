"""Database connections that a thread uses again for its next work.

Opening a connection takes longer than most queries. A connection used again behaves like a new one: no
change that one piece of work makes to it affects the next.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from django.db import Error, connections
from django.db.backends.signals import connection_created

from mcp_app.database import unresponsive

# Lifetime of a connection, unless the project's CONN_MAX_AGE is longer. It applies to connections in use as
# well, so that nothing left in them unnoticed, such as a server-side cursor, stays for long.
KEPT_SECONDS = 10.0
# A connection used less long ago is not checked, because a check takes as long as a small query.
TRUSTED_SECONDS = 1.0

# The ORM uses only these statements, and so does most handwritten SQL. They leave nothing behind in a
# session.
_HARMLESS = frozenset(
    ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "VALUES", "EXPLAIN", "SAVEPOINT", "RELEASE", "ROLLBACK")
)
_HARMLESS_OF = {
    # Django begins transactions with it, and the driver knows whether a transaction is open.
    "sqlite": frozenset(("BEGIN",)),
    # Their effect ends with their transaction.
    "postgresql": frozenset(("SET LOCAL", "SET TRANSACTION", "SET CONSTRAINTS")),
}
# Functions that change the session although they are called in such a statement.
_HARMFUL = ("set_config", "advisory_lock", "get_lock")

P = ParamSpec("P")
T = TypeVar("T")


class ReusableConnections:
    """The reusable connections of the thread that created the object, to all databases of the project."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._trusted_until = 0.0
        # Connected after all apps are ready, so that this receiver runs last. A SET statement in a receiver
        # of the project belongs to every new connection and does not count as a change.
        connection_created.connect(_on_created, dispatch_uid=__name__)
        _thread.kept = self

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``function`` and return its result. Its queries may wait for the database without a limit."""
        if self._open:
            self._look_before()
        unresponsive.be_patient(patient=True)
        try:
            return function(*args, **kwargs)
        finally:
            unresponsive.be_patient(patient=False)
            if self._open:
                self._clear_up()

    def seconds_left(self) -> float:
        """Return the seconds until the first idle connection must be closed, or -1 if none has a limit."""
        ends = [
            each.close_at
            for each in self._open.values()
            if each.connection is not None and each.close_at is not None
        ]
        return max(0.0, min(ends) - time.monotonic()) if ends else -1

    def close_old(self) -> None:
        """Close the expired connections."""
        now = time.monotonic()
        for each in self._open.values():
            if each.close_at is not None and each.close_at <= now:
                _close(each)
                # An in-memory database stays open, because its data would be lost.
                each.close_at = None

    def close(self) -> None:
        """Close all connections."""
        for each in self._open.values():
            _close(each)

    def on_created(self, connection: Any) -> None:
        """Register a new connection as unchanged. Use it again if that is possible."""
        self._changed.discard(connection.alias)
        settings = connection.settings_dict
        # If the driver has a pool, Django returns the connection to it and cannot keep it open. Without
        # AUTOCOMMIT, a connection is always in a transaction, which must end with the work.
        if connection.close_at is not None and settings["AUTOCOMMIT"] and not settings["OPTIONS"].get("pool"):
            connection.close_at = max(connection.close_at, time.monotonic() + KEPT_SECONDS)
        connection.health_check_enabled = True
        if self._open.get(connection.alias) is not connection:
            self._open[connection.alias] = connection
            connection.execute_wrappers.append(self._execute)

    def forget(self) -> None:
        """Set the connections aside in a forked child, because only the parent may use or close them."""
        for alias, connection in self._open.items():
            _inherited.append(connection)
            with suppress(AttributeError):
                del connections[alias]
        self._open = {}

    def _look_before(self) -> None:
        untrusted = time.monotonic() > self._trusted_until
        for each in self._open.values():
            if untrusted or each.settings_dict["CONN_HEALTH_CHECKS"]:
                each.health_check_done = False
            if unresponsive.of(each.alias).lasts:
                # Work on this connection would wait without a limit, but an attempt to open a new one fails
                # within seconds.
                _close(each)

    def _clear_up(self) -> None:
        now = time.monotonic()
        self._trusted_until = now + TRUSTED_SECONDS
        for each in [each for each in self._open.values() if each.connection is not None]:
            if each.alias in self._changed or _is_in_transaction(each):
                self._discard(each)
            elif each.errors_occurred or (each.close_at is not None and each.close_at <= now):
                with suppress(Error):
                    each.close_if_unusable_or_obsolete()

    def _discard(self, connection: Any) -> None:
        """Close and remove a connection, because Django's object for it still remembers open blocks."""
        _close(connection)
        del self._open[connection.alias]
        self._changed.discard(connection.alias)
        with suppress(AttributeError):
            del connections[connection.alias]

    def _execute(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        connection = context["connection"]
        if may_outlast_work(sql, connection.vendor):
            self._changed.add(connection.alias)
        return execute(sql, params, many, context)


def may_outlast_work(sql: Any, vendor: str) -> bool:
    """Return True if a statement may leave a setting, lock, temporary table or the like in its session."""
    if not isinstance(sql, str):
        return True
    words = sql.lstrip("( \r\n\t")[:80].upper().split(None, 2)
    if not words:
        return False
    of_vendor = _HARMLESS_OF.get(vendor, frozenset())
    if words[0] not in _HARMLESS and words[0] not in of_vendor and " ".join(words[:2]) not in of_vendor:
        return True
    lower = sql.lower()
    return ";" in sql.rstrip("; \r\n\t") or any(name in lower for name in _HARMFUL)


def _is_in_transaction(connection: Any) -> bool:
    """Return True if Django or the driver reports an open or failed transaction."""
    if connection.in_atomic_block or connection.needs_rollback or not connection.autocommit:
        return True
    driver = connection.connection
    if (psycopg := getattr(driver, "pgconn", None)) is not None:
        return bool(psycopg.transaction_status)
    return bool(getattr(driver, "in_transaction", False))


def _close(connection: Any) -> None:
    # Closing a broken connection may fail in the driver.
    with suppress(Error):
        connection.close()


def _on_created(connection: Any, **_: Any) -> None:
    kept: ReusableConnections | None = getattr(_thread, "kept", None)
    if kept is not None:
        kept.on_created(connection)


_thread = threading.local()
# These references are never dropped: if the object were freed, the driver might end the parent's session.
_inherited: list[Any] = []


def _in_child() -> None:
    kept: ReusableConnections | None = getattr(_thread, "kept", None)
    if kept is not None:
        kept.forget()


os.register_at_fork(after_in_child=_in_child)
