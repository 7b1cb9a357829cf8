"""Owns the lines a person pastes to connect a client; knows the public address, never a stored secret."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from django.http import HttpRequest

from mcp_app import conf

ENDPOINT = "/mcp"
KEY_PLACEHOLDER = "YOUR_API_KEY"


@dataclass(frozen=True, slots=True)
class ClientLine:
    """One way to connect: a title, and text to paste."""

    title: str
    text: str


def endpoint_url(request: HttpRequest) -> str:
    """The address of the MCP endpoint as clients reach it."""
    base = conf.get().public_url or f"{request.scheme}://{request.get_host()}"
    return base.rstrip("/") + ENDPOINT


def client_name() -> str:
    """The server's name in the form client configurations accept."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", conf.get().server_name).strip("-") or "mcp"


def client_lines(url: str, secret: str = KEY_PLACEHOLDER) -> list[ClientLine]:
    """Commands and configuration for common clients, with ``secret`` as bearer credential."""
    name, header = client_name(), f"Authorization: Bearer {secret}"
    entry = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {secret}"}}
    return [
        ClientLine(
            "Claude Code",
            f"claude mcp add --transport http {name} {shlex.quote(url)} --header {_quoted(header)}",
        ),
        ClientLine(".mcp.json, Cursor", json.dumps({"mcpServers": {name: entry}}, indent=2)),
        ClientLine("VS Code", json.dumps({"servers": {name: entry}}, indent=2)),
    ]


def _quoted(text: str) -> str:
    # Double quotes work in a POSIX shell and in Windows' alike; a key holds nothing a shell expands.
    return f'"{text}"'
