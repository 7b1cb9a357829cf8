"""Processes that start concurrently on one SQLite file mirror the catalogue once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.samples.migrated import create_tables

ROOT = Path(__file__).resolve().parents[2]
MIRROR = "from mcp_app.catalogue.changes.mirroring import mirror; print(mirror().changed)"

FORGET = "from mcp_app.models import Tool; Tool.objects.all().delete()"


def manage(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finished(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    return out.strip().splitlines()[-1] if out.strip() else ""


def test_concurrent_mirrors_write_once(tmp_path: Path) -> None:
    unwanted = ("DATABASE_URL", "REDIS_URL", "TEST_DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    environment = {**inherited, "DATA_DIR": str(tmp_path / "data")}
    create_tables(ROOT, tmp_path / "data")
    finished(manage(environment, "migrate", "--verbosity", "0"))
    assert int(finished(manage(environment, "shell", "--verbosity", "0", "-c", MIRROR))) == 0
    finished(manage(environment, "shell", "--verbosity", "0", "-c", FORGET))
    runs = [manage(environment, "shell", "--verbosity", "0", "-c", MIRROR) for _ in range(3)]
    changed = sorted(int(finished(run)) for run in runs)
    assert changed[:2] == [0, 0]
    assert changed[2] > 0
