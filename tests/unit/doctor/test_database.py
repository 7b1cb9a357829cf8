"""The database: what a sound one is said to be, and faults planted in it."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from mcp_app import conf
from mcp_app.doctor import Finding, Installation, Level, database, examine
from mcp_app.doctor.connections import connections, connections_finding
from mcp_app.doctor.examination import Area
from mcp_app.models import LogCursor
from mcp_app.streams.blocking.presence import Presence
from mcp_app.streams.gateway import Streams

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]
HERE = Installation()
GIB = 1024**3


def test_a_sound_database_is_reachable_migrated_and_takes_writes_of_which_none_stays() -> None:
    found = [
        *database.reachable(HERE),
        *database.migrations(HERE),
        *database.writes(HERE),
        *database.clock(HERE),
    ]
    assert {finding.level for finding in found} == {Level.OK}
    assert not LogCursor.objects.filter(pk=database.TRIAL_ROW).exists()


def test_a_migration_that_is_not_applied_is_named() -> None:
    newest = MigrationRecorder(connection).migration_qs.filter(app="mcp_app").latest("name")
    newest.delete()
    (found,) = database.migrations(HERE)
    assert found.level == Level.ERROR
    assert f"mcp_app.{newest.name}" in found.text
    assert "migrate" in found.remedy


@pytest.mark.django_db(transaction=True)
def test_a_database_that_takes_no_writes_is_an_error() -> None:
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
def test_room_and_clocks_are_judged(finding: Finding, level: Level) -> None:
    assert finding.level == level
    assert bool(finding.remedy) == (level != Level.OK)


@pytest.mark.parametrize(
    ("allowed", "used", "web", "children", "level"),
    [
        (97, 5, 2, 2, Level.OK),
        (50, 5, 2, 2, Level.OK),
        (49, 5, 2, 2, Level.WARNING),
        (97, 88, 1, 0, Level.WARNING),
    ],
)
def test_connections_are_enough_when_each_process_may_keep_all_of_its_own(
    allowed: int, used: int, web: int, children: int, level: Level
) -> None:
    found = connections_finding(allowed, used, web, children)
    assert (found.check, found.level) == ("database.connections", level)
    assert bool(found.remedy) == (level != Level.OK)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only a server limits connections")
def test_the_processes_that_report_are_counted_against_what_the_server_allows(clean_redis: str) -> None:
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
def test_sqlite_with_workers_of_other_hosts_is_warned_of(clean_redis: str) -> None:
    here = Installation(redis_url=clean_redis)
    assert list(database.one_host(here)) == []
    Presence(clean_redis).renew("worker@elsewhere", ["celery"])
    (found,) = database.one_host(here)
    assert found.level == Level.WARNING
    assert "elsewhere" in found.text
