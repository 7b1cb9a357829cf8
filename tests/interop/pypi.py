"""Python clients isolated from this project's packages: each has a separate folder with pinned versions."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests import wire

SCRIPTS = Path(__file__).parent / "clients"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "pypi"
INSTALL_SECONDS = 420
RUN_SECONDS = 180
# FastMCP includes the official SDK of the same line.
SHARED = {"mcp2": "fastmcp4"}


@lru_cache(maxsize=4)
def packages(name: str) -> Path:
    """Return the folder of a client's packages; skip the test if they are unavailable."""
    folder = CACHE / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    CACHE.mkdir(parents=True, exist_ok=True)
    # Test processes run concurrently, and would remove each other's installation.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(name, folder)
    return folder


def _install(name: str, folder: Path) -> None:
    requirements = SCRIPTS / f"{name}-requirements.txt"
    mark = folder / "installed.txt"
    # The mark is written last, so that an interrupted installation is repeated.
    if mark.exists() and mark.read_text() == requirements.read_text():
        return
    shutil.rmtree(folder, ignore_errors=True)
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--target", str(folder))
    command = [sys.executable, "-m", "pip", "install", *options, "-r", str(requirements)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"pip did not install {name} within {INSTALL_SECONDS} s")
    if done.returncode:
        pytest.skip(f"needs packages of {requirements.name}: {done.stderr.strip()[-600:]}")
    mark.write_text(requirements.read_text())


def run_script(
    name: str, *arguments: str, environment: dict[str, str] | None = None, own: str = ""
) -> dict[str, Any]:
    """Run a script of this folder with its packages and no others, and return the JSON report it prints.

    The packages are ``own``, or named by the part before an underscore.
    """
    own = own or name.partition("_")[0]
    folder = packages(SHARED.get(own, own))
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR") if key in os.environ}
    found = {
        **kept,
        **(environment or {}),
        **wire.environment(),
        "PYTHONPATH": f"{folder}{os.pathsep}{SCRIPTS}",
    }
    # -S: the packages of this test are not on the client's path.
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPTS / f"{name}.py"), *arguments],
        check=False,
        cwd=SCRIPTS,
        env=found,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report
