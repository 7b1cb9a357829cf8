"""Viewsets and models of another project with a custom user model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_app.catalogue.exposure.viewsets.calls import STATUS


@pytest.mark.process
def test_project_with_a_custom_user_model_exposes_viewset_and_model(tmp_path: Path) -> None:
    script = Path(__file__).with_name("other_project.py")
    root = script.parents[3]
    environ = {"PATH": os.environ["PATH"], "REDIS_URL": "", "PYTHONPATH": str(root)}
    ran = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "acme.sqlite3")],
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    lamp = {"id": 1, "product": "Lamp", "year": 2026}
    assert json.loads(ran.stdout) == {
        "ada": {"result": [lamp]},
        "one": lamp,
        "bob": '404 Not Found: {"detail":"No Order matches the given query."}',
        "nobody": {STATUS: 403},
        "rows": [{"product": "Lamp", "customer__email": "ada@acme.example"}],
        "none": [],
    }
