"""Clients from npm; without a registry their tests are skipped with the reason."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import wire
from tests.clients import node

SCRIPTS = Path(__file__).parent / "clients"
RUN_SECONDS = 120


def packages(name: str) -> Path:
    """Return the folder of installed packages; skip the test if they are unavailable."""
    try:
        node.executable()
        return node.install(name)
    except node.NodeUnavailable as missing:
        pytest.skip(f"needs npm packages: {missing}")


def beside_packages(name: str, needed: str = "interop") -> Path:
    """Copy a script of this folder to its packages, because Node looks for them there."""
    folder = packages(needed).parent
    for script in SCRIPTS.glob("*.mjs"):
        # Another test process may be reading the existing copy.
        made = folder / f"{script.name}.{os.getpid()}"
        shutil.copy(script, made)
        made.replace(folder / script.name)
    return folder / name


def run_script(name: str, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a script of this folder beside its packages, and return the JSON report it prints."""
    done = run([str(beside_packages(name)), *arguments], environment)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def run(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Node program with the pinned Node."""
    return subprocess.run(
        [node.executable(), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**node.environment(), **wire.environment(), **(environment or {})},
        timeout=RUN_SECONDS,
    )
