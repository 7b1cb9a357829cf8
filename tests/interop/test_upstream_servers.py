"""Servers of other makers as upstream servers: FastMCP and the official TypeScript SDK."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_app.catalogue.sources.upstream import known
from mcp_app.catalogue.upstreams import importing, refreshing, standing, storing
from mcp_app.catalogue.upstreams.standing import StandingChanges
from mcp_app.database.queries import aquery
from mcp_app.models import Upstream
from mcp_app.protocol.versions import V2025_11_25, V2026_07_28
from mcp_app.testing import Client
from tests.clients import node
from tests.interop import pypi
from tests.interop.npm import packages
from tests.process.installation import free_port
from tests.servers.live import eventually
from tests.servers.upstream_state import forget_upstreams

pytestmark = pytest.mark.django_db(transaction=True)
TYPESCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "typescript_server.mjs"
CLIENTS = [V2025_11_25, V2026_07_28]
ERAS = [Upstream.Era.LEGACY, Upstream.Era.MODERN]


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[str]:
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, str(port)], env={**os.environ, **environment}, **quiet) as process:
        try:
            eventually(lambda: listens(port), 120, "the server")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def typescript() -> Iterator[str]:
    script = shutil.copy(TYPESCRIPT, packages("peer").parent)
    with running([node.executable(), str(script)], free_port(), node.environment()) as origin:
        yield origin


@pytest.fixture(scope="module")
def fastmcp() -> Iterator[str]:
    script, folder = pypi.SCRIPTS / "fastmcp4_server.py", pypi.packages("fastmcp4")
    with running([sys.executable, "-S", str(script)], free_port(), {"PYTHONPATH": str(folder)}) as origin:
        yield origin


@pytest.fixture(autouse=True)
def fresh(settings: Any) -> Iterator[None]:
    settings.MCP = {**settings.MCP, "EGRESS_ALLOW": ("127.0.0.0/8",)}
    yield
    forget_upstreams()


def add(origin: str, era: str) -> None:
    row = storing.save_upstream(actor=None, name="other", url=f"{origin}/mcp", era=era)
    refreshing.refresh(upstream=row, actor=None)
    row.refresh_from_db()
    keys = [key for key in refreshing.listed_items(row) if not key.startswith("repeat_")]
    done = importing.import_items(upstream=row, keys=keys, actor=None, publish=True)
    assert done.skipped == {}


@pytest.mark.requirement("INT-63", "INT-64")
@pytest.mark.parametrize("era", ERAS)
def test_fastmcp_server_reports_asks_and_has_resources(fastmcp: str, era: str) -> None:
    add(fastmcp, era)
    # FastMCP itself cannot ask on a connection of 2026-07-28.
    greeted = "accept Ada" if era == Upstream.Era.LEGACY else "unavailable"

    async def run(version: str) -> None:
        reports: list[Any] = []
        async with Client(stored=True, version=version, elicit={"value": "Ada"}) as ours:
            found = await ours.call_tool("other_steps", {"number": 2}, on_progress=reports.append)
            assert "2 steps" in str(found["content"]), version
            assert [report["progress"] for report in reports] == [1, 2], version
            assert greeted in str((await ours.call_tool("other_greet"))["content"]), version
            (contents,) = await ours.read_resource("notes://all")
            assert contents["text"] == "one, two"

    for version in CLIENTS:
        asyncio.run(run(version))


@pytest.mark.requirement("INT-63", "INT-66")
@pytest.mark.parametrize("era", ERAS)
def test_typescript_server_is_called_and_reports_changes(
    typescript: str, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(typescript, era)

    async def run(version: str) -> None:
        async with Client(stored=True, version=version) as ours:
            assert "tea" in str(await ours.call_tool("other_echo", {"text": "tea"}))

    async def listen() -> None:
        changed = asyncio.Event()
        monkeypatch.setattr(known, "on_list_change", [lambda _name: changed.set()])
        changes = StandingChanges(lambda _uri: asyncio.sleep(0), lambda: {"upstream"})
        await changes.compare(await aquery(standing._wanted))
        async with asyncio.timeout(20):
            while not changed.is_set():
                # The stream may not be open yet.
                await asyncio.to_thread(lambda: urllib.request.urlopen(f"{typescript}/change").close())
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), 0.5)
        await changes.close()

    for version in CLIENTS:
        asyncio.run(run(version))
    asyncio.run(listen())
