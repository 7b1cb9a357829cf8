"""``server.json`` stays within the registry schema of 2025-12-11 for any server name."""

from __future__ import annotations

import re

import pytest

from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.server_json import SCHEMA, server_json

HOSTS = {
    "https://mcp.example.com/mcp": "com.example.mcp/orders",
    "https://MCP.Example.COM:8443/mcp": "com.example.mcp/orders",
    "https://orders/mcp": "orders/orders",
    "http://127.0.0.1:8000/mcp": "local/orders",
    "http://[::1]:8000/mcp": "local/orders",
    "https://under_score.example./mcp": "example.under-score/orders",
    "https://.../mcp": "local/orders",
}


@pytest.mark.parametrize(("url", "name"), HOSTS.items())
def test_name_is_reversed_domain_and_server_name(url: str, name: str) -> None:
    assert server_json(ServerConnection("orders", url), "1.2.3")["name"] == name


@pytest.mark.parametrize("name", ["orders", "", "x" * 500, "日本語", "a/b/../c", "'\"<script>\n\u202e"])
@pytest.mark.parametrize("url", [*HOSTS, f"https://{'a' * 60}.{'b' * 60}.{'c' * 60}.example/mcp"])
def test_members_stay_within_schema_bounds(name: str, url: str) -> None:
    document = server_json(ServerConnection(name, url, title=name), "1.2.3")
    assert set(document) == {"$schema", "name", "title", "description", "version", "remotes"}
    assert document["$schema"] == SCHEMA
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", document["name"])
    assert 3 <= len(document["name"]) <= 200
    assert 1 <= len(document["title"]) <= 100
    assert 1 <= len(document["description"]) <= 100
    assert document["version"] == "1.2.3"
    (remote,) = document["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", url)


def test_remote_declares_secret_header_without_key() -> None:
    (remote,) = server_json(ServerConnection("orders", "https://a.example/mcp", key="mcp_secret"), "1")[
        "remotes"
    ]
    (header,) = remote["headers"]
    assert (header["name"], header["value"]) == ("Authorization", "Bearer {api_key}")
    assert header["variables"]["api_key"]["isSecret"] is True
    assert "mcp_secret" not in str(remote)


def test_remote_without_key_has_no_headers() -> None:
    connection = ServerConnection("orders", "http://127.0.0.1:8000/mcp", needs_key=False)
    assert "headers" not in server_json(connection, "1")["remotes"][0]


def test_remote_with_login_has_no_headers() -> None:
    connection = ServerConnection("orders", "https://a.example/mcp", logs_in=True)
    assert "headers" not in server_json(connection, "1")["remotes"][0]
