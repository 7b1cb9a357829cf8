"""The commands of docs/operate work as documented: a backup is restored, an old database is upgraded."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from mcpsite.redis_server import RedisServer
from tests.process.installation import PASSED_ON, ROOT
from tests.samples.migrated import create_tables
from tests.servers.postgres import MISSING, PostgreSQL, binaries

OPERATE = ROOT / "docs" / "operate"
SEEDED = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
from mcp_app.catalogue.changes.services import update_entry
from mcp_app.models import Tool
root = get_user_model().objects.create_superuser("root")
issue_api_key(user=root, name="kept")
update_entry(entry=Tool.objects.get(name="echo"), actor=root, title="Edited by hand")
"""
STATE = """
import json
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from mcp_app.models import ApiKey, Call, Session, Tool
with connection.cursor() as cursor:
    found = connection.introspection.get_constraints(cursor, Call._meta.db_table).values()
print(json.dumps({
    "users": list(get_user_model().objects.order_by("pk").values_list("username", flat=True)),
    "keys": list(ApiKey.objects.order_by("pk").values_list("name", "secret_hash", "user__username")),
    "titles": list(Tool.objects.exclude(title="").order_by("pk").values_list("name", "title")),
    "secret": settings.SECRET_KEY,
    "indexes of calls": sorted(facts["columns"] for facts in found if facts["index"]),
    "logged": list(Session.objects.order_by("pk").values_list("messages_logged", flat=True)),
}))
"""
# In the form of the tables after the first migration, of which the next ones change the rows.
OLD = """
from datetime import UTC, datetime
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
call_command("migrate", "mcp_app", "0001", verbosity=0)
old = MigrationExecutor(connection).loader.project_state(("mcp_app", "0001_initial")).apps
ada = old.get_model("auth", "User").objects.create(username="ada", is_superuser=True)
keys = old.get_model("mcp_app", "ApiKey").objects
keys.create(name="old", prefix="mcp_old", secret_hash="0" * 64, user=ada)
old.get_model("mcp_app", "Tool").objects.create(name="echo", source="code", title="Named long ago")
now = datetime.now(UTC)
times = {"created_at": now, "last_seen_at": now}
session = old.get_model("mcp_app", "Session").objects.create(id="0" * 32, principal="p", **times)
for direction in ("in", "out"):
    old.get_model("mcp_app", "Message").objects.create(at=now, direction=direction, session=session)
"""

# The migrations until 22 November, recorded as they were before they were squashed.
UNSQUASHED = """
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
call_command("migrate", "auth", verbosity=0)
call_command("migrate", "mcp_app", "0002", verbosity=0)
applied = MigrationRecorder(connection).migration_qs.filter(app="mcp_app")
print(applied.filter(name__contains="squashed").delete()[0], applied.count())
"""

MANAGE = ".venv/bin/python manage.py"

pytestmark = pytest.mark.process


def lines_below(page: str, heading: str) -> str:
    """Return the shell commands of a section of a page."""
    text = (OPERATE / page).read_text()
    (section,) = re.findall(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", text, re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert blocks, f"{page} has no lines below {heading}"
    return "set -e\n" + "".join(blocks)


class Operated:
    """An installation without processes, and the shell of its operator."""

    def __init__(self, folder: Path, server: PostgreSQL | None = None, **settings: str) -> None:
        self.data, self.backup, self.server = folder / "data", folder / "backup", server
        inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        named = {"DATA_DIR": str(self.data), "BACKUP": str(self.backup)}
        self.environment = {**inherited, **named, **settings}

    def sh(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-c", script.replace(".venv/bin/python", sys.executable)],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def shell(self, code: str) -> str:
        return self.manage("shell", "--no-imports", "-c", code)

    def state(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.shell(STATE).splitlines()[-1])
        return found

    def prepare(self) -> None:
        """Create the tables by a copy, and the catalogue."""
        if self.server is None:
            create_tables(ROOT, self.data)
        else:
            self.server.drop_tables()
            self.server.create_tables()
        self.manage("prepare")

    def seed(self) -> None:
        self.shell(SEEDED)
        (self.data / "uploads").mkdir()
        (self.data / "uploads" / "kept.txt").write_text("kept")

    def lose_everything(self) -> None:
        """Simulate an accident: a new installation with foreign files."""
        shutil.rmtree(self.data)
        self.prepare()
        (self.data / "uploads").mkdir()
        (self.data / "uploads" / "later.txt").write_text("later")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    if binaries() is None:
        pytest.skip(MISSING)
    # Not below pytest's own folder, which the server's user may not enter.
    with tempfile.TemporaryDirectory(prefix="mcp-operate-") as folder, PostgreSQL(Path(folder)) as running:
        yield running


@pytest.fixture
def on_postgres(server: PostgreSQL, tmp_path: Path) -> Iterator[Operated]:
    home = binaries()
    cache = RedisServer(tmp_path / "redis", append_only=False)
    try:
        operated = Operated(tmp_path, server, DATABASE_URL=server.url, REDIS_URL=cache.start())
        operated.environment["PATH"] = f"{home}:{operated.environment['PATH']}"
        server.drop_tables()
        yield operated
    finally:
        cache.stop()


def test_sqlite_backup_made_during_writes_is_restored(tmp_path: Path) -> None:
    operated = Operated(tmp_path)
    operated.prepare()
    database = operated.data / "db.sqlite3"
    # A permanent reader keeps written data in the write-ahead log.
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("SELECT count(*) FROM auth_user").fetchone()
        operated.seed()
        before = operated.state()
        assert database.with_name("db.sqlite3-wal").stat().st_size > 0
        said = operated.sh(lines_below("backup.md", "Back up SQLite"))
    assert said.strip() == "ok"
    operated.lose_everything()
    database.with_name("db.sqlite3-wal").write_bytes(b"of another database")
    assert operated.state() != before
    operated.sh(lines_below("backup.md", "Restore SQLite"))
    assert operated.state() == before
    assert [path.name for path in (operated.data / "uploads").iterdir()] == ["kept.txt"]


def test_postgresql_backup_is_restored_and_redis_emptied(on_postgres: Operated) -> None:
    on_postgres.prepare()
    on_postgres.seed()
    before = on_postgres.state()
    on_postgres.sh(lines_below("backup.md", "Back up PostgreSQL"))
    on_postgres.sh('psql -q "$DATABASE_URL" -c "DELETE FROM mcp_app_apikey" -c "CREATE TABLE later ()"')
    on_postgres.lose_everything()
    with redis.from_url(on_postgres.environment["REDIS_URL"]) as client:
        client.set("later", "1")
        on_postgres.sh(lines_below("backup.md", "Restore PostgreSQL"))
        assert client.dbsize() == 0
    # A restored installation can be backed up and restored again.
    on_postgres.sh(lines_below("backup.md", "Back up PostgreSQL"))
    on_postgres.sh(lines_below("backup.md", "Restore PostgreSQL"))
    assert on_postgres.state() == before
    assert (
        "later" not in on_postgres.sh('psql -At "$DATABASE_URL" -c "SELECT tablename FROM pg_tables"').split()
    )
    assert [path.name for path in (on_postgres.data / "uploads").iterdir()] == ["kept.txt"]


def upgraded(operated: Operated) -> str:
    """Upgrade an old database by the commands of the page; check that it keeps its content."""
    # Earlier lines fetch the new code, and later ones query a running server.
    lines = lines_below("upgrade.md", "Own processes").splitlines()
    said = operated.sh("set -e\n" + "\n".join(line for line in lines if line.startswith(MANAGE)))
    assert "no issues" in said
    operated.manage("migrate", "--check")
    state = operated.state()
    assert state["users"] == ["ada"]
    assert state["keys"] == [["old", "0" * 64, "ada"]]
    assert ["echo", "Named long ago"] in state["titles"]  # type: ignore[operator]
    assert state["logged"] == [2]
    # An index added and removed within one migration remains on PostgreSQL.
    assert ["lease_until"] not in state["indexes of calls"]  # type: ignore[operator]
    assert ["state", "lease_until"] in state["indexes of calls"]  # type: ignore[operator]
    return said


# Each database applies every migration to the rows of the first version. Django reads the names of applied
# migrations in the same way on both, so only one stops on the way, at the migrations of 22 November.
def test_sqlite_database_of_22_november_is_upgraded(tmp_path: Path) -> None:
    operated = Operated(tmp_path)
    assert operated.shell(OLD + UNSQUASHED).split()[-2:] == ["1", "16"]
    assert "mcp_app.0002_squashed" not in upgraded(operated)


def test_postgresql_database_of_first_version_is_upgraded(on_postgres: Operated) -> None:
    on_postgres.shell(OLD)
    assert "mcp_app.0002_squashed" in upgraded(on_postgres)
