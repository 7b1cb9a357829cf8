"""Runs the clients that come from npm; without a registry they are skipped with the reason."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import node, wire

SCRIPTS = Path(__file__).parent / "clients"
RUN_SECONDS = 120


def packages(name: str) -> Path:
    """The folder of installed packages; skips the test when they cannot be had."""
    try:
        node.executable()
        return node.install(name)
    except node.NodeUnavailable as missing:
        pytest.skip(f"needs npm packages: {missing}")


def run_script(name: str, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run one of our scripts beside its packages and return the JSON report it prints."""
    folder = packages("interop").parent
    # Node looks for packages beside the script, so the scripts are copied to where those are.
    for script in SCRIPTS.glob("*.mjs"):
        shutil.copy(script, folder / script.name)
    done = run([str(folder / name), *arguments], environment)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def run(arguments: list[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a Node program with our Node."""
    return subprocess.run(
        [node.executable(), *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**node.environment(), **wire.environment(), **(environment or {})},
        timeout=RUN_SECONDS,
    )
