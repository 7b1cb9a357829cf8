"""Shared fixtures of the suite: the embedded Redis of this session, and the record of all messages."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
from django.apps import apps
from django.contrib.contenttypes.management import create_contenttypes
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models.signals import post_migrate

from mcpsite.redis_server import RedisServer
from tests import wire
from tests.samples.migrated import migrated

ROOT = Path(__file__).resolve().parents[1]
MADE_BY_MIGRATE = ("auth_permission", "django_content_type")

# No deadline: on a busy machine an example may take any time.
hypothesis.settings.register_profile("thorough", deadline=None)
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
hypothesis.settings.load_profile("thorough")

pytest_plugins = ["tests.plugins.kinds"]
pytest.register_assert_rewrite("tests.streams_contract")


@pytest.fixture(scope="session", autouse=True)
def _every_message_is_as_published() -> Iterator[None]:
    """Record the servers' messages in this process and its children, and validate all of them at the end."""
    from tests.wire import recorder, verdict

    with tempfile.TemporaryDirectory(prefix="mcp-wire-") as folder:
        os.environ[wire.VARIABLE] = folder
        recorder.install(Path(folder))
        yield
        del os.environ[wire.VARIABLE]
        found = verdict.problems(Path(folder))
        if found:
            raise verdict.Unpublished("\n".join(found))


@pytest.fixture(autouse=True)
def _limits_end_with_their_test() -> Iterator[None]:
    """Drop the limits that this process applies, because the database forgets their rows."""
    yield
    current = sys.modules.get("mcp_app.limits.current")
    if current is not None:
        current.replace(())
        usage = sys.modules["mcp_app.limits.usage"]
        usage._notes.units.clear()
        usage._notes.refused.clear()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Configure test databases without a catalogue, before any fixture creates one.

    ``migrate`` creates a catalogue at its end; tests that need one create it themselves. On SQLite the
    database is a copy.
    """
    post_migrate.disconnect(sender=apps.get_app_config("mcp_app"), dispatch_uid="mcp_app.prepare")
    post_migrate.disconnect(sender=apps.get_app_config("mcp_oauth"), dispatch_uid="mcp_app.roles")
    if connection.vendor == "sqlite":
        migrated_database = migrated(ROOT, os.environ["DJANGO_SETTINGS_MODULE"])
        Path(connection.settings_dict["TEST"]["NAME"]).write_bytes(migrated_database)


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Keep the first content types and permissions when a test empties the database.

    Creating them is slow. On PostgreSQL the database is emptied by DELETE: TRUNCATE creates new files
    for every table.
    """
    operations = type(connection.ops)
    emptied = operations.sql_flush

    with django_db_blocker.unblock(), connection.cursor() as cursor:
        later = []
        for table in MADE_BY_MIGRATE:
            cursor.execute(f"SELECT max(id) FROM {table}")
            later.append(f"DELETE FROM {table} WHERE id > {cursor.fetchone()[0] or 0}")

    def sql_flush(self: Any, style: Any, tables: list[str], **options: Any) -> list[str]:
        tables = [table for table in tables if table not in MADE_BY_MIGRATE]
        if connection.vendor == "postgresql":
            return [f"DELETE FROM {self.quote_name(table)}" for table in tables] + later
        statements: list[str] = emptied(self, style, tables, **options)
        return statements + later

    operations.sql_flush = sql_flush  # type: ignore[method-assign, assignment]
    # Django sends this signal after each such test as well: deleted content types must not stay cached.
    post_migrate.connect(_forget_content_types)
    post_migrate.disconnect(create_contenttypes)
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")


def _forget_content_types(**_: Any) -> None:
    ContentType.objects.clear_cache()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Keep the copied database. It is removed with the folder of the tests."""
    return connection.vendor == "sqlite"


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Run one Redis for this test process (each xdist worker has its own), without persistence."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), append_only=False)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def redis_url(redis_server: RedisServer) -> str:
    """Return the URL of that Redis. Use ``clean_redis`` if the test needs it empty."""
    return redis_server.url


@pytest.fixture
def clean_redis(redis_url: str) -> str:
    """Return the URL of that Redis, emptied before the test."""
    with redis.Redis.from_url(redis_url, protocol=2) as client:
        client.flushall()
        client.script_flush()
    return redis_url


@pytest.fixture
def handled_ctrl_c() -> Iterator[None]:
    """Handle Ctrl-C as a server does: request a stop and raise nothing."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield
    signal.signal(signal.SIGINT, before)
