"""The bridge as a process of its own: nothing that it started outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_app import conf
from mcp_app.upstreams.caller import Caller
from mcp_app.upstreams.sessions import end
from tests.bounds import PATIENCE
from tests.process.bridge.conftest import COMMANDS, is_running, server_of
from tests.process.bridge.test_bridge import call
from tests.servers.live import ROOT, eventually


@pytest.fixture
def running(tmp_path: Path, settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "mcpsite.settings",
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": settings.SECRET_KEY,
        "UPSTREAM_COMMANDS": json.dumps(COMMANDS),
        "UPSTREAM_SOCKET": conf.get().upstream_socket,
    }
    with subprocess.Popen(
        [sys.executable, "manage.py", "mcp_upstreams"], cwd=ROOT, env=environment, start_new_session=True
    ) as process:
        try:
            eventually(Path(conf.get().upstream_socket).exists, PATIENCE, "the socket")
            yield process
        finally:
            process.kill()


async def started() -> list[int]:
    """Start a process, a child that ignores the end of the input, and one that left for another session."""
    server = server_of("usual")
    return [int(await call(server, name)) for name in ("pid", "child", "daemon")]


@pytest.mark.requirement("INT-75")
@pytest.mark.requirement("INT-76")
@pytest.mark.parametrize("by_group", [False, True])
def test_processes_end_with_a_killed_bridge(running: subprocess.Popen[bytes], *, by_group: bool) -> None:
    pids = asyncio.run(started())
    assert all(map(is_running, pids))
    # The supervisor kills the group of a dead process.
    (os.killpg if by_group else os.kill)(running.pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_running, pids)), what="the end of the processes")


@pytest.mark.requirement("INT-75")
def test_stopped_bridge_ends_its_processes_and_its_socket(running: subprocess.Popen[bytes]) -> None:
    pids = asyncio.run(started())
    running.terminate()
    assert running.wait(20) == 0
    assert not any(map(is_running, pids))
    assert not Path(conf.get().upstream_socket).exists()


@pytest.mark.requirement("INT-75")
@pytest.mark.parametrize("how", ["session", "crash"])
def test_processes_end_with_their_session(running: subprocess.Popen[bytes], how: str) -> None:
    async def run() -> None:
        pids = await started()
        assert len({os.getsid(pid) for pid in pids}) == 2
        kept = [int(await call(server_of("usual"), name, key="other")) for name in ("pid", "daemon")]
        if how == "session":
            await end(server_of("usual"), Caller("one"))
        else:
            os.kill(pids[0], signal.SIGKILL)
        async with asyncio.timeout(15):
            while any(map(is_running, pids)):
                await asyncio.sleep(0.02)
        assert all(map(is_running, kept)), "the processes of another session go on"

    asyncio.run(run())


@pytest.mark.requirement("INT-75")
def test_rounds_of_sessions_leave_no_process_and_no_descriptor(running: subprocess.Popen[bytes]) -> None:
    async def rounds(number: int) -> None:
        for each in range(number):
            key = f"caller-{each}"
            await call(server_of("usual"), "counter", key=key)
            await end(server_of("usual"), Caller(key))

    asyncio.run(rounds(2))
    before = settled(running.pid)
    asyncio.run(rounds(20))
    eventually(lambda: settled(running.pid) <= before, 15, "the end of all processes")


def settled(pid: int) -> int:
    """Return the number of descriptors of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
