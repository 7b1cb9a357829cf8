"""Node and npm packages for tests, in a cache folder ignored by git. This module does not depend on MCP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from fcntl import LOCK_EX, flock
from functools import lru_cache
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "npm"
NODE_AT_LEAST = (22, 19)
PACKAGES: dict[str, dict[str, str]] = {
    "node": {"node": "22"},
    "axe": {"axe-core": "4.14.1"},
    "bundles": {"esbuild": "0.28.2"},
    "conformance": {"@modelcontextprotocol/conformance": "0.2.0-alpha.12"},
    "interop": {
        "@modelcontextprotocol/sdk": "1.32.0",
        "@modelcontextprotocol/client": "2.4.0",
    },
    "apps-host": {
        "@modelcontextprotocol/ext-apps": "2.0.4",
        "@modelcontextprotocol/client": "2.4.0",
        "@modelcontextprotocol/core": "2.4.0",
        "esbuild": "0.28.2",
        "zod": "4.6.7",
    },
    "gemini-core": {"@google/gemini-cli-core": "0.61.0"},
    "inspector": {"@modelcontextprotocol/inspector": "2.12.0"},
    "mcp-remote": {"mcp-remote": "0.15.1"},
    "claude": {"@anthropic-ai/claude-code": "2.1.332"},
    "codex": {"@openai/codex": "0.171.0"},
    "gemini": {"@google/gemini-cli": "0.61.0"},
    "provider": {"oidc-provider": "9.13.3"},
    "everything": {"@modelcontextprotocol/server-everything": "2026.8.31"},
    "peer": {
        "@modelcontextprotocol/server": "2.4.0",
        "@modelcontextprotocol/node": "2.1.2",
        "zod": "4.6.7",
    },
}
INSTALL_SECONDS = 420


class NodeUnavailable(Exception):
    """Node or an npm package is unavailable; the text says how to install it."""


def _version(executable: str) -> tuple[int, ...]:
    """Return ``(22, 19, 0)`` for an executable that prints ``v22.19.0``, or ``()`` if it cannot be run."""
    try:
        answer = subprocess.run(
            [executable, "--version"], check=False, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:3])


@lru_cache(maxsize=1)
def executable() -> str:
    """Return the path of a Node that is new enough for every tool, else of the npm package.

    Raise NodeUnavailable.
    """
    own = shutil.which("node")
    if own and _version(own) >= NODE_AT_LEAST:
        return own
    brought = install("node") / "node" / "bin" / "node"
    if _version(str(brought)) < NODE_AT_LEAST:
        raise NodeUnavailable(f"the npm package node@22 brought no usable Node in {brought.parent}")
    return str(brought)


@lru_cache(maxsize=8)
def install(name: str) -> Path:
    """Install one of PACKAGES if missing and return its ``node_modules``. Raise NodeUnavailable."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = json.dumps({"private": True, "dependencies": PACKAGES[name]}, sort_keys=True)
    # The marker is written last, so that an interrupted install is repeated.
    mark = folder / "installed.json"
    # Two concurrent npm runs in one folder delete each other's files.
    with (folder / ".lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not (mark.exists() and mark.read_text() == wanted):
            (folder / "package.json").write_text(wanted)
            _npm_install(folder)
            mark.write_text(wanted)
    return folder / "node_modules"


def _npm_install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NodeUnavailable("npm is not installed; install Node with npm (any version) and try again")
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"]
    try:
        done = subprocess.run(
            command, check=False, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NodeUnavailable(f"npm install did not finish in {INSTALL_SECONDS} s") from None
    if done.returncode:
        raise NodeUnavailable(f"npm install failed: {done.stderr.strip()[-600:]}")


def environment() -> dict[str, str]:
    """Return the process environment with our Node first on PATH, for scripts that start Node themselves."""
    folder = str(Path(executable()).parent)
    return {**os.environ, "PATH": folder + os.pathsep + os.environ.get("PATH", ""), "NO_COLOR": "1"}
