"""A tool that forks in a web process: its orphan does not hold the port."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.clients.raw_http import Mcp, RawClient
from tests.process.installation import free_port
from tests.servers.live import ROOT, LiveServer, eventually

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer(web_processes=0, settings="tests.ledger_app.settings") as server:
        yield server


def answers(port: int) -> bool:
    with suppress(OSError), RawClient("127.0.0.1", port) as client:
        return client.request("GET", "/healthz").status == 200
    return False


def test_port_is_free_after_web_process_with_forking_tool_ends(live: LiveServer) -> None:
    port = free_port()
    web = subprocess.Popen(
        [sys.executable, "-m", "mcpsite.web"], cwd=ROOT, env={**live.environment, "PORT": str(port)}
    )
    orphan = 0
    try:
        eventually(lambda: answers(port), 40, "the web process")
        with closing(Mcp.at(port)) as client:
            client.initialize()
            orphan = int(client.tool("fork", nonce="x")["result"]["structuredContent"]["result"])
        web.terminate()
        web.wait(20)
        os.kill(orphan, 0)  # It is still alive.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5).close()
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen()
    finally:
        if orphan:
            os.kill(orphan, signal.SIGKILL)
        web.kill()
        web.wait()
