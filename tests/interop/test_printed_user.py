"""A first start with ``MCP_AUTH=required``: clients log in as the printed user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.clients import node
from tests.integration.oauth.person import Memory, Person, provider
from tests.interop import npm
from tests.process.installation import Installation

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "oauth" / "clients.md"
_OPENED = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?\S+")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Start for the first time, with two web processes."""
    started = Installation(tmp_path_factory.mktemp("up"), MCP_AUTH="required", WEB_PROCESSES="2")
    started.start_healthy()
    yield started
    started.close()


def person(printed: Installation) -> Person:
    """Return the user with the printed name and password."""
    user, password = printed.value(r"user (\S+), password"), printed.value(r"password (\S+)")
    return Person(name=user, password=password)


class Remote:
    """``mcp-remote`` as started by a desktop client: messages over stdio, one a line."""

    def __init__(self, url: str, kept: Path, somebody: Person) -> None:
        program = npm.packages("mcp-remote") / "mcp-remote" / "dist" / "proxy.js"
        # No browser of this machine: the printed address is followed by the test's user.
        environment = {**node.environment(), "MCP_REMOTE_CONFIG_DIR": str(kept), "BROWSER": "true"}
        self.process = subprocess.Popen(
            [node.executable(), str(program), url, "--auth-timeout", "60"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self.said: list[str] = []
        self._over = threading.Timer(npm.RUN_SECONDS, self.process.kill)
        self._reader = threading.Thread(target=self._read, args=(somebody,))
        self._over.start()
        self._reader.start()

    def _read(self, somebody: Person) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if (found := _OPENED.search(line)) is not None:
                visit(somebody, found[0])

    def call(self, number: int, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
        raise AssertionError("".join(self.said)[-4000:])

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def add(self) -> Any:
        """Initialize and return the result of the tool ``add``."""
        client = {"name": "desktop", "version": "1"}
        self.call(1, "initialize",
                  {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})  # fmt: skip
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.call(2, "tools/call", {"name": "add", "arguments": {"a": 2, "b": 3}})["structuredContent"]

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.terminate()
        self._reader.join()
        self.process.wait()
        self._over.cancel()
        assert self.process.stderr is not None
        self.process.stderr.close()


def visit(somebody: Person, address: str) -> None:
    """Log in, allow, and follow the redirect."""
    asyncio.run(somebody.open(address))
    with urllib.request.urlopen(somebody.sent_to) as page:
        assert page.status == 200


def test_printed_text_mentions_no_key_with_browser_login(printed: Installation) -> None:
    url = f"http://127.0.0.1:{printed.port}/mcp"
    assert f"npx -y mcp-remote {url})" in printed.output
    assert f"  Client   claude mcp add --transport http django-mcp {url}\n" in printed.output
    assert "every request needs one" not in printed.output


def test_mcp_remote_logs_in_once_and_reuses_the_login(printed: Installation, tmp_path: Path) -> None:
    url, somebody = f"http://127.0.0.1:{printed.port}/mcp", person(printed)
    for opened in (1, 1):
        remote = Remote(url, tmp_path, somebody)
        try:
            assert remote.add() == {"result": 5}
        finally:
            remote.close()
        assert somebody.opened == opened, "".join(remote.said)[-4000:]


async def test_python_client_logs_in(printed: Installation) -> None:
    url, somebody = f"http://127.0.0.1:{printed.port}/mcp", person(printed)
    async with (
        httpx2.AsyncClient(auth=provider(url, Memory(), somebody), timeout=120) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool("add", {"a": 2, "b": 3})
    assert result.structured_content == {"result": 5}
    assert somebody.opened == 1


def test_documented_python_program_logs_in(printed: Installation, tmp_path: Path) -> None:
    (text,) = re.findall(
        r"^```python\n(import asyncio\n.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE
    )
    program = tmp_path / "program.py"
    program.write_text(text.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{printed.port}"))
    running = subprocess.Popen(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "BROWSER": "true"},
    )
    over = threading.Timer(npm.RUN_SECONDS, running.kill)
    over.start()
    try:
        assert running.stdout is not None
        address = _OPENED.search(running.stdout.readline())
        assert address is not None
        visit(person(printed), address[0])
        assert running.stdout.read() == "{'result': 5}\n"
        assert running.wait() == 0
    finally:
        over.cancel()
        running.kill()
        running.communicate()
