"""An app outside of this project is served without a change of it: a command makes it, a setting names it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.process.installation import PASSED_ON, ROOT, Installation
from tests.raw_http import Mcp

pytestmark = pytest.mark.process


def manage(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return subprocess.run(
        [sys.executable, ROOT / "manage.py", *words],
        cwd=folder, env={**inherited, "DATA_DIR": str(folder / "data"), **settings},
        text=True, capture_output=True, timeout=180, check=False,
    )  # fmt: skip


def test_a_new_app_passes_its_own_test_and_its_tool_is_served(tmp_path: Path) -> None:
    apps = tmp_path / "tools"
    made = manage(tmp_path, "mcp_startapp", "mytools", str(apps / "mytools"))
    assert made.returncode == 0, made.stderr
    settings = {"MCP_APPS": "mytools", "MCP_APPS_PATH": str(apps)}
    tried = manage(tmp_path, "test", "mytools", **settings)
    assert "Ran 1 test" in tried.stderr, tried.stderr
    assert tried.returncode == 0, tried.stderr
    installation = Installation(tmp_path, **settings)
    try:
        installation.start_healthy()
        with closing(Mcp.at(installation.port)) as client:
            client.initialize()
            assert client.tool("word_count", text="a b c")["result"]["structuredContent"] == {"result": 3}
    finally:
        installation.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"MCP_APPS": "no_such_app"}, "'no_such_app'"),
        ({"MCP_APPS": "../evil"}, "'../evil'"),
        ({"MCP_APPS_PATH": "/no/such/folder"}, "'/no/such/folder'"),
    ],
)
def test_an_app_that_cannot_be_found_is_one_line(tmp_path: Path, settings: dict[str, str], says: str) -> None:
    done = manage(tmp_path, "check", **settings)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
