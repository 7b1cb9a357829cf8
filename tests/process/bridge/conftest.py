"""A running bridge in this process, with commands that start the misbehaving program."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_app import conf
from mcp_app.bridge.service import Bridge
from mcp_app.upstreams.server import UpstreamServer
from tests.servers import stdio_program
from tests.servers.upstream_state import forget_upstreams

PROGRAM = [sys.executable, stdio_program.__file__]
TOKEN = "t0ken-0123456789"
COMMANDS: dict[str, dict[str, Any]] = {
    "usual": {"command": PROGRAM, "env": {"API_TOKEN": TOKEN, "PLAIN": "plain-0123456789"}},
    "small": {"command": PROGRAM, "memory_mb": 64, "max_processes": 3, "max_sessions": 2},
    "fragile": {"command": [*PROGRAM, "fragile"]},
    "late": {"command": [*PROGRAM, "late"]},
    "mute": {"command": [*PROGRAM, "mute"]},
    "modern": {"command": [*PROGRAM, "modern"]},
    "broken": {"command": [*PROGRAM, "broken"]},
    "absent": {"command": ["/no/such/program"]},
    "idle": {"command": PROGRAM, "idle_seconds": 1},
}


@pytest.fixture(autouse=True)
def _fresh(settings: Any) -> Iterator[None]:
    """Configure the commands, and forget sessions, breakers and outcomes."""
    with tempfile.TemporaryDirectory(prefix="mcp-bridge-") as folder:
        path = str(Path(folder) / "bridge.sock")
        values = {"REDIS_URL": "", "UPSTREAM_COMMANDS": COMMANDS, "UPSTREAM_SOCKET": path}
        settings.MCP = {**settings.MCP, **values}
        os.environ["LEAKED_SECRET"] = "must-not-be-inherited"
        yield
        del os.environ["LEAKED_SECRET"]
    forget_upstreams()


@pytest.fixture
async def bridge() -> AsyncIterator[Bridge]:
    found, stop = Bridge(conf.get()), asyncio.Event()
    running = asyncio.create_task(found.run(stop))
    while not Path(conf.get().upstream_socket).exists():
        await asyncio.sleep(0.01)
    yield found
    stop.set()
    await running


def server_of(name: str, era: str = "legacy", **more: Any) -> UpstreamServer:
    url = conf.get().upstream_commands[name].url
    number = list(COMMANDS).index(name) + 1
    return UpstreamServer(number, name, url, era=era, seconds=20.0, command=name, **more)


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a call and wait until its connection is closed."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def is_running(pid: int) -> bool:
    """Return True if a process runs. A zombie does not."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] != "Z"


@pytest.fixture
def served() -> Iterator[Bridge]:
    """Run a bridge in a thread, for tests without an event loop."""
    found, ready = list[Any](), threading.Event()

    async def run() -> None:
        stop = asyncio.Event()
        found.extend((asyncio.get_running_loop(), stop, Bridge(conf.get())))
        await found[2].run(stop, ready.set)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(10)
    loop, stop, bridge = found
    yield bridge
    loop.call_soon_threadsafe(stop.set)
    thread.join()
