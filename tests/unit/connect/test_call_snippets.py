"""Snippets that repeat a call: quoted for the shell and for Python, whatever the arguments."""

from __future__ import annotations

import ast
import json
import shlex
from typing import Any

import pytest

from mcp_app.connect.call_snippets import METHODS, call_snippets
from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection
from tests.samples.admin_seed import ALL_HOSTILE

OPEN = ServerConnection("django-mcp", "http://127.0.0.1:8000/mcp", needs_key=False)
CLOSED = ServerConnection("django-mcp", "https://mcp.example.com/mcp")
REQUESTS: dict[str, dict[str, Any]] = {
    "tools/call": {
        "name": "echo",
        "arguments": {"text": ALL_HOSTILE + "'\"\\ 😀 $(id) `id` \ud800", "none": None},
    },
    "prompts/get": {"name": "it's", "arguments": {"code": "a\nb"}},
    "resources/read": {"uri": "notes://x/'; id #"},
}


@pytest.mark.parametrize("connection", [OPEN, CLOSED], ids=["open", "closed"])
@pytest.mark.parametrize("method", METHODS)
def test_curl_snippet_passes_request_as_one_shell_word(method: str, connection: ServerConnection) -> None:
    curl, _ = call_snippets(connection, method, REQUESTS[method])
    words = shlex.split(curl.text)
    request = next(word for word in words if '"id":2' in word)
    assert json.loads(request) == {"jsonrpc": "2.0", "id": 2, "method": method, "params": REQUESTS[method]}
    assert (f"Authorization: Bearer {KEY_PLACEHOLDER}" in words) == connection.needs_key


@pytest.mark.parametrize("connection", [OPEN, CLOSED], ids=["open", "closed"])
@pytest.mark.parametrize("method", METHODS)
def test_python_snippet_loads_exact_arguments(method: str, connection: ServerConnection) -> None:
    _, python = call_snippets(connection, method, REQUESTS[method])
    tree = ast.parse(python.text)
    loaded = [
        ast.literal_eval(node.value.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    ]
    assert [json.loads(text) for text in loaded] == [
        REQUESTS[method][name] for name in ("arguments",) if name in REQUESTS[method]
    ]
    assert ("HEADERS" in python.text) == connection.needs_key


def test_python_snippet_without_arguments_loads_no_json() -> None:
    _, python = call_snippets(OPEN, "tools/call", {"name": "now", "arguments": {}})
    assert "json.loads" not in python.text
    assert "call_tool('now')" in python.text


def test_other_method_raises_key_error() -> None:
    with pytest.raises(KeyError):
        call_snippets(OPEN, "ping", {})
