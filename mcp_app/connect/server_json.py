"""``server.json``, the description of a server for MCP registries.

It does not depend on any framework.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from mcp_app.connect.connection import ServerConnection

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_TEXT_LENGTH = 100
_VERSION_LENGTH = 255
_NAMESPACE_LENGTH = 128


def server_json(connection: ServerConnection, version: str) -> dict[str, Any]:
    """Return the document that describes a server. ``version`` is the version of the server."""
    remote: dict[str, Any] = {"type": "streamable-http", "url": connection.url}
    if connection.needs_key and not connection.logs_in:
        remote["headers"] = [_authorization()]
    return {
        "$schema": SCHEMA,
        "name": f"{_namespace(connection.host)}/{connection.client_name}",
        "title": connection.label[:_TEXT_LENGTH],
        "description": f"MCP server {connection.label}"[:_TEXT_LENGTH],
        "version": version[:_VERSION_LENGTH],
        "remotes": [remote],
    }


def _authorization() -> dict[str, Any]:
    key = {"description": "An API key of this server", "isRequired": True, "isSecret": True}
    return {
        "name": "Authorization",
        "description": "An API key of this server, from an administrator",
        "value": "Bearer {api_key}",
        "isRequired": True,
        "isSecret": True,
        "variables": {"api_key": key},
    }


def _namespace(host: str) -> str:
    """Return the host's name reversed, such as ``com.example.mcp`` for ``mcp.example.com``.

    Registries require this form, because they verify who owns the domain.
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = re.sub(r"[^a-z0-9.-]", "-", host).strip(".").split(".")
        return ".".join(reversed(labels))[:_NAMESPACE_LENGTH].strip(".-") or "local"
    return "local"
