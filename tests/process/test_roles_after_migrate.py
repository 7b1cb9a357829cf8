"""``migrate`` alone completes the roles: in a fresh database, and in one of an older version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_app.auth.roles import ROLES

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
# As the previous version created them: permissions of mcp_app only, without a record of grants.
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
"""
HELD = """
import json, django
django.setup()
from django.contrib.auth.models import Group
print(json.dumps({each.name: [p.codename for p in each.permissions.all()] for each in Group.objects.all()}))
"""


@pytest.fixture(params=APPS.values(), ids=APPS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Run Python with a separate database, and with the apps in this order."""
    (tmp_path / "older_settings.py").write_text(SETTINGS % (str(tmp_path / "db.sqlite3"), request.param))
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "older_settings",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "TEST_DATA_DIR": str(tmp_path),
    }

    def ran(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    return ran


def held(run: Any) -> dict[str, set[str]]:
    return {name: set(codenames) for name, codenames in json.loads(run("-c", HELD)).items()}


def test_roles_of_fresh_database_are_complete(run: Any) -> None:
    """Permissions of mcp_oauth are created after those of mcp_app, when the groups already exist."""
    run("manage.py", "migrate", "-v0")
    assert held(run) == ROLES


def test_roles_of_older_database_gain_new_permissions_only(run: Any) -> None:
    run("-c", OLD)
    run("manage.py", "migrate", "-v0")
    expected = {**ROLES, "MCP operator": ROLES["MCP operator"] - {"decide_call"}}
    assert held(run) == expected
    run("manage.py", "migrate", "-v0")
    assert held(run) == expected
