"""The database connections that a thread keeps between pieces of other people's work.

Opening one takes longer than most queries, so it is not opened for each. What is kept is as good as new:
nothing that one piece of work did to its connection reaches the next one.
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

# How long a connection lives, used or not, unless the project's CONN_MAX_AGE is longer. An end for those in
# use, too: what work may leave behind unseen, such as a server's cursor, does not last.
KEPT_SECONDS = 10.0
# One used a moment ago is not asked whether it still works: that takes as long as a small query.
TRUSTED_SECONDS = 1.0

# What the ORM says, and people mostly say themselves: it leaves nothing in a session.
_HARMLESS = frozenset(
    ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "VALUES", "EXPLAIN", "SAVEPOINT", "RELEASE", "ROLLBACK")
)
_HARMLESS_OF = {
    # Django begins transactions so; the driver knows whether one is open.
    "sqlite": frozenset(("BEGIN",)),
    # They end with their transaction.
    "postgresql": frozenset(("SET LOCAL", "SET TRANSACTION", "SET CONSTRAINTS")),
}
# Functions that change a session from inside of such a statement.
_HARMFUL = ("set_config", "advisory_lock", "get_lock")

P = ParamSpec("P")
T = TypeVar("T")


class KeptConnections:
    """Those that the thread which makes this opens, to any database of the project; for that thread only."""

    def __init__(self) -> None:
        self._open: dict[str, Any] = {}
        self._changed: set[str] = set()
        self._trusted_until = 0.0
        # When all apps are ready, so that it is told last: what receivers of the project SET is of every
        # connection.
        connection_created.connect(_on_created, dispatch_uid=__name__)
        _thread.kept = self

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What ``function`` returns or raises; its queries wait as long as it takes."""
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
        """How long they may stay open unused; -1 when none of them has an end."""
        ends = [
            each.close_at
            for each in self._open.values()
            if each.connection is not None and each.close_at is not None
        ]
        return max(0.0, min(ends) - time.monotonic()) if ends else -1

    def close_old(self) -> None:
        """Close those whose time is over."""
        now = time.monotonic()
        for each in self._open.values():
            if each.close_at is not None and each.close_at <= now:
                _close(each)
                # A database in memory stays open, for its data would be lost.
                each.close_at = None

    def close(self) -> None:
        """Close all of them."""
        for each in self._open.values():
            _close(each)

    def on_created(self, connection: Any) -> None:
        """One was opened: it is kept if it can be, and nobody has changed it yet."""
        self._changed.discard(connection.alias)
        settings = connection.settings_dict
        # Django gives one of a driver's pool back, and refuses to keep it. Without AUTOCOMMIT each is in a
        # transaction, which must end with the work.
        if connection.close_at is not None and settings["AUTOCOMMIT"] and not settings["OPTIONS"].get("pool"):
            connection.close_at = max(connection.close_at, time.monotonic() + KEPT_SECONDS)
        connection.health_check_enabled = True
        if self._open.get(connection.alias) is not connection:
            self._open[connection.alias] = connection
            connection.execute_wrappers.append(self._execute)

    def forget(self) -> None:
        """This is a forked child: they are its parent's, to use as to close."""
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
                # A new one is refused within seconds; the work would wait on this one for as long as it may.
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
        """Its successor is a new object: Django's remembers the blocks that it believes to be in."""
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
    """Whether a statement may leave something in its session: a setting, a lock, a temporary table, …"""
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
    """Whether Django or its driver knows of a transaction that was left open, or broken."""
    if connection.in_atomic_block or connection.needs_rollback or not connection.autocommit:
        return True
    driver = connection.connection
    if (psycopg := getattr(driver, "pgconn", None)) is not None:
        return bool(psycopg.transaction_status)
    return bool(getattr(driver, "in_transaction", False))


def _close(connection: Any) -> None:
    # A driver may fail to say goodbye on a connection that is broken.
    with suppress(Error):
        connection.close()


def _on_created(connection: Any, **_: Any) -> None:
    kept: KeptConnections | None = getattr(_thread, "kept", None)
    if kept is not None:
        kept.on_created(connection)


_thread = threading.local()
# Never collected, since a driver may end the session of a connection that it collects.
_inherited: list[Any] = []


def _in_child() -> None:
    kept: KeptConnections | None = getattr(_thread, "kept", None)
    if kept is not None:
        kept.forget()


os.register_at_fork(after_in_child=_in_child)
