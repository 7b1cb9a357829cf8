"""The Dockerfile, checked without a container engine."""

from __future__ import annotations

import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INSTRUCTIONS = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()


def test_copied_files_exist_and_pass_dockerignore() -> None:
    sources = [name for line in INSTRUCTIONS if line.startswith("COPY ") for name in line.split()[1:-1]]
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    allowed = [pattern.removeprefix("!") for pattern in ignored if pattern.startswith("!")]
    assert ignored[0] == "*"
    for name in sources:
        assert (ROOT / name).exists(), name
        assert any(fnmatch.fnmatch(name, pattern) for pattern in allowed), name


def test_image_runs_as_unprivileged_user() -> None:
    names = [line.split()[0] for line in INSTRUCTIONS if line]
    assert "USER mcp" in INSTRUCTIONS
    assert names.index("USER") < names.index("CMD")
