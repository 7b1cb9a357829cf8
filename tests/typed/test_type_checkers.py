"""Applications can be type checked strictly: the public API has types."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = Path(__file__).with_name("examples.py")
# Not among the requirements, since it needs Node.js: `npm install -g pyright`.
PYRIGHT = shutil.which("pyright")

pytestmark = pytest.mark.process


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mypy_accepts_application_and_finds_its_faults(tmp_path: Path) -> None:
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n")
    options = ("--config-file", str(settings), "--cache-dir", str(tmp_path / "cache"))
    _run(sys.executable, "-m", "mypy", *options, str(EXAMPLES.relative_to(ROOT)))


@pytest.mark.skipif(PYRIGHT is None, reason="pyright is not installed")
def test_pyright_accepts_application_and_finds_its_faults(tmp_path: Path) -> None:
    # It takes relative paths only.
    up = "../" * (len(tmp_path.resolve().parts) - 1)
    settings = {
        "include": [up + str(EXAMPLES).removeprefix("/")],
        "extraPaths": [str(ROOT)],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "pythonVersion": f"{sys.version_info.major}.{sys.version_info.minor}",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    said = _run(str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path))
    assert json.loads(said)["summary"]["filesAnalyzed"] == 1
