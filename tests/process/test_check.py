"""``manage.py check --deploy``: clean with production settings, and not with careless ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.live import INHERITED, ROOT

pytestmark = pytest.mark.process

PRODUCTION = {
    "HOST": "0.0.0.0",
    "PUBLIC_URL": "https://mcp.example.com",
    "TRUSTED_PROXIES": "10.0.0.0/8",
    "MCP_AUTH": "required",
    # Nothing listens there: checking settings opens no connection.
    "DATABASE_URL": "postgresql://user:password@127.0.0.1:1/name",
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "SECRET_KEY": "".join(chr(33 + number % 90) for number in range(0, 900, 13)),
}


def check(folder: Path, **changed: str) -> tuple[int, str]:
    """Return the status and output of the check."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-W", "error", "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        check=False,
        cwd=ROOT,
        env={**inherited, "DATA_DIR": str(folder), **PRODUCTION, **changed},
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.returncode, done.stdout + done.stderr


def test_production_settings_have_no_issues(tmp_path: Path) -> None:
    assert check(tmp_path) == (0, "System check identified no issues (0 silenced).\n")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"DEBUG": "on"}, "mcp_app.W003"),
        ({"REDIS_URL": ""}, "mcp_app.W013"),
        ({"TRUSTED_PROXIES": ""}, "security.W008"),
        ({"PUBLIC_URL": "http://mcp.example.com"}, "security.W012"),
    ],
)
def test_careless_setting_is_reported_with_hint(
    changed: dict[str, str], expected: str, tmp_path: Path
) -> None:
    status, printed = check(tmp_path, **changed)
    assert status == 1
    assert expected in printed
