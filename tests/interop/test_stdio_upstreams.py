"""Real servers over stdio behind ``manage.py up``: an npm package, the official SDK, and our own server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.clients import node
from tests.clients.raw_http import Mcp
from tests.interop.npm import packages
from tests.process.installation import ROOT, Installation, wait_until
from tests.samples.migrated import create_tables

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop"), pytest.mark.requirement("INT-76")]
SCRIPT = "@modelcontextprotocol/server-everything/dist/index.js"
SDK_SERVER = str(Path(__file__).parent / "sdk_stdio_server.py")
LEGACY, MODERN = "2025-11-25", "2026-07-28"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("up")
    # Our own server has a data folder of its own, and its catalogue has the demo tools.
    own = {"DATA_DIR": str(folder / "own"), "REDIS_URL": ""}
    commands: dict[str, Any] = {
        "everything": {"command": [node.executable(), str(packages("everything") / SCRIPT), "stdio"]},
        "sdk": {"command": [sys.executable, SDK_SERVER]},
        "own": {"command": [sys.executable, str(ROOT / "manage.py"), "mcp_stdio"], "env": own},
    }
    installation = Installation(folder, UPSTREAM_COMMANDS=json.dumps(commands), DEMO="off", WEB_PROCESSES="2")
    create_tables(ROOT, folder / "own")
    prepared = {**installation.environment, **own, "DEMO": "on"}
    subprocess.run([sys.executable, "manage.py", "prepare"], cwd=ROOT, env=prepared, check=True)
    installation.start_healthy()
    yield installation
    installation.close()


def manage(up: Installation, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT, env=up.environment, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def use(up: Installation, tool: str, **arguments: Any) -> str:
    with closing(Mcp.at(up.port)) as client:
        client.initialize()
        wait_until(lambda: tool in str(client.call("tools/list")), 10, f"the tool {tool}")
        return json.dumps(client.tool(tool, **arguments))


@pytest.fixture(scope="module")
def added(up: Installation) -> dict[str, str]:
    """Return the output of each command that adds a server and publishes one of its tools."""
    tools = {"everything": "echo", "sdk": "add", "own": "echo"}
    add = ("mcp_upstream", "add")
    return {
        name: manage(up, *add, name, "--command", name, "--item", tool, "--publish")
        for name, tool in tools.items()
    }


@pytest.mark.requirement("INT-63")
@pytest.mark.parametrize(
    ("name", "tool", "arguments", "expected", "version"),
    [
        ("everything", "everything_echo", {"message": "tea"}, "Echo: tea", LEGACY),
        ("sdk", "sdk_add", {"a": 1, "b": 2}, "3", MODERN),
        ("own", "own_echo", {"text": "tea"}, "tea", MODERN),
    ],
)
def test_real_server_is_added_and_called(
    up: Installation,
    added: dict[str, str],
    name: str,
    tool: str,
    arguments: dict[str, Any],
    expected: str,
    version: str,
) -> None:
    assert f"Published 1 entry of {name}" in added[name]
    assert expected in use(up, tool, **arguments)
    shown = f"from mcp_app.models import Upstream; print(Upstream.objects.get(name={name!r}).version)"
    assert version in manage(up, "shell", "-c", shown)


@pytest.mark.requirement("INT-75")
@pytest.mark.usefixtures("added")
def test_killed_bridge_is_replaced_and_leaves_no_process(up: Installation) -> None:
    assert "Echo: tea" in use(up, "everything_echo", message="tea")
    pid = up.pid("upstreams")
    children = psutil.Process(pid).children(recursive=True)
    assert len(children) >= 2
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: up.pid("upstreams") not in (0, pid), 10, "another bridge")
    wait_until(lambda: not any(each.is_running() for each in children), 10, "the end of its processes")
    wait_until(lambda: "Echo: tea" in use(up, "everything_echo", message="tea"), 30, "a call")


@pytest.mark.requirement("INT-75")
@pytest.mark.usefixtures("added")
def test_killed_supervisor_leaves_no_process(up: Installation) -> None:
    assert "Echo: tea" in use(up, "everything_echo", message="tea")
    up.remember()
    up.running.kill()
    wait_until(lambda: not up.survivors(), 20, "the end of all processes")
