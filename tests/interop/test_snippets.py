"""Snippets that the server shows work unchanged, with a real key, against a server that requires one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_app.connect.call_snippets import call_snippets
from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.snippets import snippets
from tests.clients import node
from tests.interop import npm
from tests.servers.live import LiveServer

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("interop")]
ISSUE = """
from django.contrib.auth import get_user_model
from mcp_app.auth.api_keys import issue_api_key
user = get_user_model().objects.create_user("snippets")
print(issue_api_key(user=user, name="snippets", actor=user)[1])
"""
RUN_SECONDS = 60


@pytest.fixture(scope="module")
def connection() -> Iterator[ServerConnection]:
    """Start a server that requires a key, and issue one."""
    with LiveServer(1, env={"MCP_AUTH": "required"}) as server:
        key = server.shell(ISSUE).strip().splitlines()[-1]
        yield ServerConnection("django-mcp", server.url, key=key)
        assert not server.trouble(), server.logs()[-4000:]


def text(client: str, connection: ServerConnection) -> str:
    (snippet,) = snippets(connection, client)
    return snippet.text


def run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _needs_curl() -> None:
    if not shutil.which("curl"):
        pytest.skip("needs curl")


def test_python_snippet_lists_the_tools(connection: ServerConnection) -> None:
    assert "echo" in run(sys.executable, "-c", text("python", connection)).split()


def test_curl_snippet_initializes(connection: ServerConnection) -> None:
    _needs_curl()
    answer = run("/bin/sh", "-c", text("curl", connection))
    assert answer.startswith("HTTP/1.1 200 ")
    assert '"serverInfo"' in answer


def test_typescript_snippet_lists_the_tools(connection: ServerConnection, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(npm.packages("interop"))
    script = tmp_path / "snippet.mjs"
    script.write_text(text("typescript", connection))
    assert "'echo'" in run(node.executable(), str(script), cwd=tmp_path)


ARGUMENTS = {"text": 'it\'s "so" $HOME `id` \\n\né'}


def test_curl_snippet_repeats_a_call(connection: ServerConnection) -> None:
    _needs_curl()
    curl, _ = call_snippets(connection, "tools/call", {"name": "echo", "arguments": ARGUMENTS})
    answer = json.loads(run("/bin/sh", "-c", curl.text).strip().splitlines()[-1])
    assert answer["result"]["content"][0]["text"] == ARGUMENTS["text"]


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("tools/call", {"name": "echo", "arguments": ARGUMENTS}, ARGUMENTS["text"]),
        ("prompts/get", {"name": "code_review", "arguments": {"code": "x = 1"}}, "x = 1"),
        ("resources/read", {"uri": "demo://greeting/Ada"}, "Hello, Ada!"),
    ],
)
def test_python_snippet_repeats_a_request(
    method: str, params: dict[str, Any], expected: str, connection: ServerConnection
) -> None:
    _, python = call_snippets(connection, method, params)
    assert json.dumps(expected, ensure_ascii=False)[1:-1] in run(sys.executable, "-c", python.text)


def test_snippet_with_the_placeholder_key_is_unauthorized(connection: ServerConnection) -> None:
    _needs_curl()
    answer = run("/bin/sh", "-c", text("curl", ServerConnection("django-mcp", connection.url)))
    assert answer.startswith("HTTP/1.1 401 ")
