"""A project that exposes a viewset gets its tables from ``migrate``, even if the viewset queries them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import postgres

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
from mcp_app.models import Tool
from mcp_app.catalogue.snapshots.current_snapshot import loaded
names = sorted(Tool.objects.values_list("name", flat=True))
kinds = loaded().tools["notes_create"].wire["inputSchema"]["properties"]["kind"]["enum"]
print(names, "contenttype" in kinds)
"""


@pytest.fixture(params=["sqlite3", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Return an empty database as Django settings."""
    if request.param == "sqlite3":
        yield {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "db.sqlite3")}
        return
    if postgres.binaries() is None:
        pytest.skip(postgres.MISSING)
    # Not below tmp_path, which only its owner may enter: the server does not run as root.
    with tempfile.TemporaryDirectory(prefix="mcp-fresh-") as folder, postgres.PostgreSQL(Path(folder)):
        yield {"ENGINE": "django.db.backends.postgresql", "NAME": "mcp", "USER": "mcp", "HOST": folder}


@pytest.mark.process
@pytest.mark.requirement("INT-47")
def test_empty_database_is_migrated_and_serves_viewset(database: dict[str, Any]) -> None:
    """Every command works before ``migrate``, none queries at startup, and the schema is read at the end."""
    before = _manage(database, "makemigrations", "--check", "--dry-run")
    assert "No changes detected" in before.stdout
    checked = _manage(database, "check")
    assert "NoteViewSet.create: the schema of its arguments is read from the database" in checked.stderr
    assert "run `manage.py migrate`" in checked.stderr
    migrated = _manage(database, "migrate")
    assert "2 entries updated" in migrated.stdout
    assert "NoteViewSet" not in migrated.stderr
    assert "NoteViewSet" not in _manage(database, "check", "--database", "default").stderr
    assert _manage(database, "shell", "-v", "0", "-c", SHOW).stdout.strip() == "['notes_create', 'ping'] True"


def _manage(database: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        # Django warns of queries during app initialization; here each such warning ends the process.
        [sys.executable, "-W", "error::RuntimeWarning", "-m", "django", *arguments],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.process.fresh.settings",
            "FRESH_DATABASE": json.dumps(database),
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done
