"""``migrate`` alone completes the roles: in a fresh database, and in one of an older version.

The tables exist before: `migrate` has only the signal left to send, which completes the roles. test_up.py and
test_empty_database.py begin with an empty database.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_app.auth.roles import ROLES
from tests.samples.migrated import migrated

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
APPS = {"as installed": "", "oauth first": "oauth first"}
SETTINGS = """
from tests.settings import *

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": %r}}
if %r:
    ours = ["mcp_app.oauth", "mcp_app"]
    INSTALLED_APPS = [*(name for name in INSTALLED_APPS if name not in ours), *ours]
"""
# As the previous version created them: permissions of mcp_app only, without a record of grants. Then the
# migrations of this version, without the signal.
OLD = """
import django
django.setup()
from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db.models.signals import post_migrate
from mcp_app.auth.roles import ROLES

saved, post_migrate.receivers = post_migrate.receivers, []
post_migrate.sender_receivers_cache.clear()
call_command("migrate", "mcp_app", "0038", verbosity=0)
call_command("migrate", "mcp_oauth", verbosity=0)
create_permissions(apps.get_app_config("mcp_app"), verbosity=0)
Permission.objects.filter(codename="run_doctor").delete()
for name, codenames in ROLES.items():
    group = Group.objects.create(name=name)
    given = Permission.objects.filter(codename__in=codenames, content_type__app_label="mcp_app")
    group.permissions.set(given)
Group.objects.get(name="MCP operator").permissions.remove(Permission.objects.get(codename="decide_call"))
create_permissions(apps.get_app_config("mcp_oauth"), verbosity=0)
call_command("migrate", verbosity=0)
"""
HELD = """
SELECT auth_group.name, codename FROM auth_group
LEFT JOIN auth_group_permissions ON group_id = auth_group.id
LEFT JOIN auth_permission ON auth_permission.id = permission_id
"""


class Database:
    """A database of one installation, and its ``manage.py migrate``."""

    def __init__(self, folder: Path, order: str = "") -> None:
        self.folder, self.file = folder, folder / "db.sqlite3"
        (folder / "older_settings.py").write_text(SETTINGS % (str(self.file), order))

    def run(self, *arguments: str) -> None:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "older_settings",
            "PYTHONPATH": f"{self.folder}{os.pathsep}{ROOT}",
            "TEST_DATA_DIR": str(self.folder),
        }
        subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=True)

    def migrate(self) -> dict[str, set[str]]:
        """Run ``migrate`` and return the permissions of each role."""
        self.run("manage.py", "migrate", "-v0")
        held: dict[str, set[str]] = {}
        with closing(sqlite3.connect(self.file)) as database:
            for name, codename in database.execute(HELD):
                held.setdefault(name, set()).update({codename} - {None})
        return held


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a migrated database with the roles of the previous version."""
    database = Database(tmp_path_factory.mktemp("older"))
    database.run("-c", OLD)
    return database.file


@pytest.fixture(params=APPS.values(), ids=APPS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """Return a database without tables, of an installation with the apps in this order."""
    return Database(tmp_path, request.param)


def test_roles_of_fresh_database_are_complete(database: Database) -> None:
    """Permissions of mcp_oauth are created after those of mcp_app, when the groups already exist."""
    database.file.write_bytes(migrated(ROOT, "mcpsite.settings"))
    with closing(sqlite3.connect(database.file)) as connection, connection:
        connection.execute("DELETE FROM auth_permission")
        connection.execute("DELETE FROM django_content_type")
    assert database.migrate() == ROLES


def test_roles_of_older_database_gain_new_permissions_only(database: Database, older: Path) -> None:
    shutil.copy(older, database.file)
    expected = {**ROLES, "MCP operator": ROLES["MCP operator"] - {"decide_call"}}
    assert database.migrate() == expected
    assert database.migrate() == expected
