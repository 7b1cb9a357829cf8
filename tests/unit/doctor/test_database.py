"""Database checks: findings for a healthy database, and for planted faults."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from mcp_app import conf
from mcp_app.doctor import Finding, Installation, Level, database, examine
from mcp_app.doctor.database_connections import connections, connections_finding
from mcp_app.doctor.examination import Area
from mcp_app.doctor.finding import milliseconds
from mcp_app.models import LogCursor
from mcp_app.streams.blocking.presence import Presence
from mcp_app.streams.gateway import Streams

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
HERE = Installation()
GIB = 1024**3


def test_healthy_database_passes_and_keeps_no_trial_row() -> None:
    found = [
        *database.reachable(HERE),
        *database.migrations(HERE),
        *database.writes(HERE),
        *database.clock(HERE),
    ]
    assert {finding.level for finding in found} == {Level.OK}
    assert not LogCursor.objects.filter(pk=database.TRIAL_ROW).exists()


def test_unapplied_migration_is_named() -> None:
    newest = MigrationRecorder(connection).migration_qs.filter(app="mcp_app").latest("name")
    newest.delete()
    (found,) = database.migrations(HERE)
    assert found.level == Level.ERROR
    assert f"mcp_app.{newest.name}" in found.text
    assert "migrate" in found.remedy


@pytest.mark.django_db(transaction=True)
def test_failing_write_is_error() -> None:
    table = LogCursor._meta.db_table
    with connection.schema_editor() as editor:
        editor.alter_db_table(LogCursor, table, table + "_lost")
    try:
        (found,) = examine(HERE, [Area("database", (database.writes,))])
    finally:
        with connection.schema_editor() as editor:
            editor.alter_db_table(LogCursor, table + "_lost", table)
    assert (found.check, found.level) == ("database.writes", Level.ERROR)


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (database.disk_finding(50 * 1024**2), Level.ERROR),
        (database.disk_finding(GIB // 2), Level.WARNING),
        (database.disk_finding(2 * GIB), Level.OK),
        (database.clock_finding("database.clock", 1.9), Level.OK),
        (database.clock_finding("database.clock", 2.1), Level.ERROR),
        (database.clock_finding("database.clock", -2.1), Level.ERROR),
    ],
)
def test_disk_space_and_clock_findings_have_level_and_remedy(finding: Finding, level: Level) -> None:
    assert finding.level == level
    assert bool(finding.remedy) == (level != Level.OK)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (database.disk_finding(65_948 * 1024**2).text, "64.4 GiB"),
        (database.disk_finding(GIB // 2).text, "512 MiB"),
        (milliseconds(0.00002), "<0.1 ms"),
        (milliseconds(0.0123), "12.3 ms"),
    ],
)
def test_measured_sizes_and_times_have_a_fitting_unit(text: str, size: str) -> None:
    assert text.startswith(size)


@pytest.mark.parametrize(
    ("allowed", "used", "web", "children", "level"),
    [
        (97, 5, 2, 2, Level.OK),
        (50, 5, 2, 2, Level.OK),
        (49, 5, 2, 2, Level.WARNING),
        (97, 88, 1, 0, Level.WARNING),
    ],
)
def test_connection_limit_covers_maximum_of_every_process(
    allowed: int, used: int, web: int, children: int, level: Level
) -> None:
    found = connections_finding(allowed, used, web, children)
    assert (found.check, found.level) == ("database.connections", level)
    assert bool(found.remedy) == (level != Level.OK)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only a server limits connections")
def test_connection_check_counts_reporting_processes(clean_redis: str) -> None:
    async def report() -> None:
        streams = Streams.connect(clean_redis, conf.get())
        await streams.start()
        for number, kind in enumerate(["web", "web", "worker"]):
            await streams.metrics.add(f"process-{number}", 1, [], orjson.dumps({"kind": kind}))
        await streams.close()

    asyncio.run(report())
    (found,) = connections(Installation(redis_url=clean_redis))
    assert "web processes (2, each 16)" in found.text
    assert "(1, each 9) keep 41 at most" in found.text
    (alone,) = connections(HERE)
    assert "keep 16 at most" in alone.text


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only a file cannot be shared")
def test_sqlite_with_workers_on_other_hosts_is_warning(clean_redis: str) -> None:
    here = Installation(redis_url=clean_redis)
    assert list(database.one_host(here)) == []
    Presence(clean_redis).renew("worker@elsewhere", ["celery"])
    (found,) = database.one_host(here)
    assert found.level == Level.WARNING
    assert "elsewhere" in found.text
