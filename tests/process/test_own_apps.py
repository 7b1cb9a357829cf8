"""An app outside of this project is created by a command and served by a setting, without code changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.clients.raw_http import Mcp
from tests.process.installation import PASSED_ON, ROOT, Installation
from tests.samples.migrated import create_tables

pytestmark = pytest.mark.process


def command(folder: Path, *words: str, **settings: str) -> dict[str, Any]:
    """Return a command of this installation started from another folder."""
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {**inherited, "DATA_DIR": str(folder / "data"), **settings}
    return {"args": [sys.executable, ROOT / "manage.py", *words], "cwd": folder, "env": environment}


def manage(folder: Path, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        **command(folder, *words, **settings), text=True, capture_output=True, timeout=900, check=False
    )


def test_new_app_passes_its_test_and_serves_its_tool(tmp_path: Path) -> None:
    apps = tmp_path / "tools"
    made = manage(tmp_path, "mcp_startapp", "mytools", str(apps / "mytools"))
    assert made.returncode == 0, made.stderr
    assert f"MCP_APPS=mytools MCP_APPS_PATH={apps} make dev" in made.stdout
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


def test_stdio_server_offers_tools_of_own_app(tmp_path: Path) -> None:
    assert manage(tmp_path, "mcp_startapp", "mytools", str(tmp_path / "tools" / "mytools")).returncode == 0
    create_tables(ROOT, tmp_path / "data")
    assert manage(tmp_path, "migrate", "--verbosity", "0").returncode == 0
    settings = {"MCP_APPS": "mytools", "MCP_APPS_PATH": str(tmp_path / "tools")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    client = {"name": "raw", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    with subprocess.Popen(**command(tmp_path, "mcp_stdio", **settings), **pipes, text=True) as server:
        assert "serverInfo" in exchange(server, "initialize", hello)["result"]
        called = exchange(server, "tools/call", {"name": "word_count", "arguments": {"text": "a b c"}})
        assert called["result"]["structuredContent"] == {"result": 3}
    assert server.returncode == 0


def exchange(server: subprocess.Popen[str], method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send one request on standard input, and read its answer."""
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(
        json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}) + "\n"
    )
    server.stdin.flush()
    answer: dict[str, Any] = json.loads(server.stdout.readline())
    return answer


def test_error_in_app_is_shown_with_location_by_every_command(tmp_path: Path) -> None:
    app = tmp_path / "tools" / "mytools"
    assert manage(tmp_path, "mcp_startapp", "mytools", str(app)).returncode == 0
    (app / "mcp.py").write_text("import no_such_library\n")
    for name in ("mcp_stdio", "up", "mcp_doctor"):
        done = manage(tmp_path, name, MCP_APPS="mytools", MCP_APPS_PATH=str(app.parent))
        assert done.returncode == 1
        assert f"{app / 'mcp.py'}:1: ModuleNotFoundError: No module named 'no_such_library'" in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"MCP_APPS": "no_such_app"}, "'no_such_app'"),
        ({"MCP_APPS": "../evil"}, "'../evil'"),
        ({"MCP_APPS_PATH": "/no/such/folder"}, "'/no/such/folder'"),
    ],
)
def test_missing_app_is_one_line_error(tmp_path: Path, settings: dict[str, str], says: str) -> None:
    done = manage(tmp_path, "check", **settings)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
