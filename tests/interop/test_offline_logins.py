"""Clients that prefer metadata documents log in to a server without internet: Claude Code, Codex, Gemini
CLI.

Their packages take 900 MB, so this runs by ``make client-logins`` only, as root on Linux.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.integration.oauth.person import PEOPLE, Person
from tests.interop import npm
from tests.interop.offline import CannotUnshare, Terminal, without_internet
from tests.servers.live import LiveServer

pytestmark = [
    pytest.mark.process,
    pytest.mark.xdist_group("interop"),
    pytest.mark.skipif(not os.environ.get("CLIENT_LOGINS"), reason="runs by `make client-logins`"),
]
SECONDS = 120.0
AUTHORIZE = r"http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s│]+"


@pytest.fixture
def server() -> Iterator[LiveServer]:
    """Start a server with default settings; neither it nor the clients reach the internet."""
    for name in ("claude", "codex", "gemini"):
        npm.packages(name)
    try:
        with without_internet(), LiveServer(1, env={"MCP_AUTH": "required"}) as running:
            running.shell(PEOPLE)
            yield running
            assert not running.trouble(), running.logs()[-4000:]
    except CannotUnshare as reason:
        pytest.skip(f"needs a network namespace of its own: {reason}")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home of a user who starts these programs for the first time."""
    (tmp_path / "work").mkdir()
    return tmp_path


def started(home: Path, package: str, program: str, *arguments: str) -> Terminal:
    """Start a program in a terminal, without the environment of this test."""
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "BROWSER": "/bin/false",
        "GEMINI_API_KEY": "none",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    }
    path = npm.packages(package) / ".bin" / program
    return Terminal([str(path), *arguments], environment, home / "work")


def done(home: Path, package: str, program: str, *arguments: str) -> str:
    """Return the output of a program that needs no input."""
    with started(home, package, program, *arguments) as terminal:
        assert terminal.end(SECONDS) == 0, terminal.shown[-4000:]
        return terminal.shown


def sent_back(address: str) -> str:
    """Log in and allow at the address; return the address of the redirect."""
    # The page would report that a metadata document cannot be fetched.
    assert "client_id=https" not in address
    person = Person()
    asyncio.run(person.open(address))
    return person.sent_to


def test_claude_code_logs_in_to_a_server_without_internet(server: LiveServer, home: Path) -> None:
    done(home, "claude", "claude", "mcp", "add", "--transport", "http", "django", server.url)
    with started(home, "claude", "claude", "mcp", "login", "django", "--no-browser") as terminal:
        address = terminal.wait_for(AUTHORIZE, SECONDS)[0]
        terminal.type(sent_back(address))
        assert terminal.end(SECONDS) == 0
        assert 'Authenticated with "django"' in terminal.shown
    assert "Connected" in done(home, "claude", "claude", "mcp", "list")


def test_codex_logs_in_to_a_server_without_internet(server: LiveServer, home: Path) -> None:
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(f'[mcp_servers.django]\nurl = "{server.url}"\n')
    with started(home, "codex", "codex", "mcp", "login", "django") as terminal:
        address = terminal.wait_for(AUTHORIZE, SECONDS)[0]
        assert "complete" in httpx2.get(sent_back(address), timeout=60).text
        assert terminal.end(SECONDS) == 0
        assert "Successfully logged in" in terminal.shown
    assert "OAuth" in done(home, "codex", "codex", "mcp", "list")


def test_gemini_cli_logs_in_to_a_server_without_internet(server: LiveServer, home: Path) -> None:
    (home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {"django": {"httpUrl": server.url}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with started(home, "gemini", "gemini") as terminal:
        terminal.wait_for("1 MCP server", SECONDS)
        # It accepts a command only once started, without an indication. An early command is queued.
        for _ in range(10):
            terminal.type("/mcp auth django ")
            if terminal.shows("Do you want to continue", SECONDS / 10):
                break
        terminal.type("")
        address = terminal.wait_for(AUTHORIZE, SECONDS)[0]
        assert "Successful" in httpx2.get(sent_back(address), timeout=60).text
        terminal.wait_for(re.escape("Successfully authenticated and reloaded tools for 'django'"), SECONDS)
