"""A project's own test run never connects to the Redis that its settings name."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.live import ROOT

pytestmark = pytest.mark.process

SETTINGS = """
SECRET_KEY = "a-project-that-is-only-tested-0123456789-abcdef"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "mcp_app"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}}}
USE_TZ = True
MCP = {{"REDIS_URL": "redis://127.0.0.1:{port}/0", "ALLOWED_HOSTS": ["testserver"]}}
"""
TESTS = """
from django.contrib.auth import get_user_model
from django.test import TransactionTestCase

from mcp_app import tool
from mcp_app.auth.api_keys import issue_api_key, revoke_api_key
from mcp_app.testing import call_tool


@tool(background=True)
def report() -> str:
    return "done"


class Tests(TransactionTestCase):
    def test_writes_that_are_broadcast(self):
        ada = get_user_model().objects.create_user("ada")
        key, _ = issue_api_key(user=ada, name="k")
        revoke_api_key(key=key)

    def test_background_tool(self):
        self.assertIs(call_tool("report")["isError"], False)
"""


def test_test_run_opens_no_connection_to_project_redis(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as redis:
        redis.setblocking(False)
        (tmp_path / "their_settings.py").write_text(SETTINGS.format(port=redis.getsockname()[1]))
        (tmp_path / "test_theirs.py").write_text(TESTS)
        done = subprocess.run(
            [sys.executable, "-m", "django", "test", "--settings", "their_settings"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        assert "Ran 2 tests" in done.stderr
        # A connection would wait in the backlog.
        with pytest.raises(BlockingIOError):
            redis.accept()
