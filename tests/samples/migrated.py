"""Databases that are created once for all processes of all suites, because that is slow.

They are stored in pytest's cache under names derived from the inputs that determine their content.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

# Every other settings module has at least the apps of this one.
BASE = "mcpsite.settings"
KEPT_SECONDS = 3 * 24 * 3600


@lru_cache(maxsize=4)
def migrated(root: Path, settings: str) -> bytes:
    """Return the migrated database of a checkout under a settings module.

    The environment of a server may add apps: ``manage.py prepare`` applies the missing migrations.
    """
    return kept(root, digest_of(root, settings), lambda: _made(root, settings))


def create_tables(root: Path, data: Path, settings: str = BASE) -> None:
    """Create the data folder of an installation, with the migrated database."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    (data / "db.sqlite3").write_bytes(migrated(root, settings))


def kept(root: Path, name: str, make: Callable[[], bytes]) -> bytes:
    """Return the result of ``make``, cached under ``name`` for all processes. Remove old files."""
    folder = root / ".pytest_cache" / "databases"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.database"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            part = file.with_suffix(".part")
            part.write_bytes(make())
            part.rename(file)
            _remove_old(folder)
        return file.read_bytes()


def _remove_old(folder: Path) -> None:
    for file in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                file.unlink()


def _made(root: Path, settings: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="mcp-migrate-") as folder:
        if settings != BASE:
            (Path(folder) / "db.sqlite3").write_bytes(migrated(root, BASE))
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        here = {"DATA_DIR": folder, "TEST_DATA_DIR": folder, "HOST": "127.0.0.1"}
        done = subprocess.run(
            # -P: this file's folder has modules with conflicting names and must not be on the path.
            [sys.executable, "-P", __file__],
            cwd=root,
            env={**inherited, **here, "PYTHONPATH": str(root), "DJANGO_SETTINGS_MODULE": settings},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return (Path(folder) / "db.sqlite3").read_bytes()


def digest_of(root: Path, settings: str = BASE) -> str:
    """Return a digest of our migrations, the settings, and the versions of other apps."""
    decisive = [
        *root.glob("mcp_app/**/migrations/*.py"),
        *root.glob("requirements*.txt"),
        root / "mcpsite" / "settings.py",
        root.joinpath(*settings.split(".")).with_suffix(".py"),
    ]
    digest = hashlib.sha256(repr((sys.executable, sys.version, settings)).encode())
    for path in sorted(decisive):
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:32]


@lru_cache(maxsize=2)
def sources(root: Path) -> str:
    """Return a digest of a checkout's source code."""
    digest = hashlib.sha256(repr((sys.executable, sys.version)).encode())
    folders = ("mcp_app", "mcpsite", "tests")
    for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
        digest.update(path.read_bytes())
    for path in sorted(root.glob("requirements*.txt")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def migrate() -> None:
    """Migrate the configured database without creating a catalogue or roles: each server creates its own."""
    import django

    django.setup()

    from django.apps import apps
    from django.core.management import call_command
    from django.db.models.signals import post_migrate

    post_migrate.disconnect(sender=apps.get_app_config("mcp_app"), dispatch_uid="mcp_app.prepare")
    post_migrate.disconnect(sender=apps.get_app_config("mcp_oauth"), dispatch_uid="mcp_app.roles")
    call_command("migrate", interactive=False, verbosity=0)


if __name__ == "__main__":
    migrate()
