"""Checks of the database: reachable, migrated, writable, fast. There are additional checks for SQLite."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.migrations.executor import MigrationExecutor

from mcp_app.catalogue.changes.mirroring import not_in_database
from mcp_app.doctor.database_connections import connections
from mcp_app.doctor.finding import Finding, error, milliseconds, ok, skipped, warning
from mcp_app.doctor.installation import Installation
from mcp_app.models import LogCursor
from mcp_app.streams.base import StreamsUnavailable
from mcp_app.streams.blocking.presence import Presence

SLOW_SECONDS = 0.05
# Only the fastest round trip counts, because other programs of a busy machine may delay single ones.
ROUND_TRIPS = 5
SKEW_SECONDS = 2.0
# A primary key that no sequence reaches. The row is rolled back in any case.
TRIAL_ROW = 2**62
MIB = 1024 * 1024
GIB = 1024 * MIB
DISK_ERROR = 100 * MIB
DISK_WARNING = GIB


def reachable(_: Installation) -> Iterator[Finding]:
    """Check that the database responds quickly."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        took = min(_round_trip(cursor) for _ in range(ROUND_TRIPS))
    text = f"{connection.display_name} responds in {milliseconds(took)}"
    remedy = "Move it closer, or reduce its load."
    yield (
        warning("database.reachable", text, remedy) if took > SLOW_SECONDS else ok("database.reachable", text)
    )


def _round_trip(cursor: CursorWrapper) -> float:
    started = time.perf_counter()
    cursor.execute("SELECT 1")
    return time.perf_counter() - started


def migrations(_: Installation) -> Iterator[Finding]:
    """Check that all migrations of the installed apps have been applied."""
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        names = ", ".join(f"{step.app_label}.{step.name}" for step, _ in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        yield error("database.migrations", f"not applied: {names}{more}", "Run `manage.py migrate`.")
    else:
        yield ok("database.migrations", "all applied")


def catalogue(_: Installation) -> Iterator[Finding]:
    """Check that every catalogue entry from code has a row in the database."""
    if absent := not_in_database():
        names = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        text = f"entries in code are missing and not offered: {names}"
        yield error("database.catalogue", text, "Run `manage.py migrate` or `manage.py mcp_prepare`.")
    else:
        yield ok("database.catalogue", "all entries from code are stored")


def writes(_: Installation) -> Iterator[Finding]:
    """Check that the database accepts a new row. The row is rolled back."""
    with transaction.atomic():
        LogCursor.objects.create(pk=TRIAL_ROW)
        transaction.set_rollback(True)
    yield ok("database.writes", "new rows can be stored")


def clock(_: Installation) -> Iterator[Finding]:
    """Check that the clock of the database server agrees with the clock of this machine."""
    if connection.vendor != "postgresql":
        return
    with connection.cursor() as cursor:
        before = time.time()
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        ahead = float(cursor.fetchone()[0]) - (before + time.time()) / 2
    yield clock_finding("database.clock", ahead)


def clock_finding(check: str, ahead: float) -> Finding:
    """Return the finding for a clock.

    ``ahead`` is its difference from this machine's clock, in seconds.
    """
    text = f"its clock differs from this machine's by {abs(ahead):.1f} s"
    if abs(ahead) <= SKEW_SECONDS:
        return ok(check, text)
    return error(check, text, "Synchronize the clocks of all machines (NTP), otherwise times in logs differ.")


def write_ahead_log(_: Installation) -> Iterator[Finding]:
    """Check that SQLite uses a write-ahead log. Otherwise readers and the writer would block each other."""
    if connection.vendor != "sqlite" or connection.is_in_memory_db():  # type: ignore[attr-defined]
        return
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        mode = cursor.fetchone()[0]
    if mode == "wal":
        yield ok("database.write_ahead_log", "on")
    else:
        remedy = "Put the database's file on a local disk, and set init_command to PRAGMA journal_mode=WAL."
        yield error("database.write_ahead_log", f"off (journal_mode is {mode})", remedy)


def disk(_: Installation) -> Iterator[Finding]:
    """Check the free space on the disk that contains the SQLite file."""
    if connection.vendor == "sqlite" and not connection.is_in_memory_db():  # type: ignore[attr-defined]
        yield disk_finding(shutil.disk_usage(Path(connection.settings_dict["NAME"]).parent).free)


def disk_finding(free: int) -> Finding:
    """Return the finding for a number of free bytes."""
    size = f"{free / GIB:,.1f} GiB" if free >= GIB else f"{free // MIB:,} MiB"
    text = f"{size} are free on the disk of the database"
    remedy = "Free space on this disk, or move the database to a larger one."
    if free < DISK_ERROR:
        return error("database.disk", text, remedy)
    return warning("database.disk", text, remedy) if free < DISK_WARNING else ok("database.disk", text)


def one_host(installation: Installation) -> Iterator[Finding]:
    """Check that no worker on another host uses the SQLite file.

    The hosts are known because worker names end with ``@host``.
    """
    if connection.vendor != "sqlite" or not installation.redis_url:
        return
    try:
        names = [worker.name for worker in Presence(installation.redis_url).workers()]
    except StreamsUnavailable:
        yield skipped("database.one_host", "the hosts of workers are unknown without Redis")
        return
    others = sorted({name.rpartition("@")[2] for name in names if "@" in name} - {gethostname()})
    if others:
        text = f"SQLite is used here, and workers run on other hosts: {', '.join(others)}"
        yield warning("database.one_host", text, "Use one PostgreSQL database for all hosts.")


CHECKS = (migrations, catalogue, writes, clock, connections, write_ahead_log, disk, one_host)
