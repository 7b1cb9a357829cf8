"""Connection details: hostile names become harmless, unusable addresses are rejected."""

from __future__ import annotations

import re

import pytest

from mcp_app.connect.connection import ServerConnection, is_address

URL = "https://mcp.example.com/mcp"


@pytest.mark.parametrize(
    ("name", "client_name", "label"),
    [
        ("django-mcp", "django-mcp", "django-mcp"),
        ("Orders & Stock", "Orders-Stock", "Orders & Stock"),
        ("--scope=user", "scope-user", "--scope=user"),
        ("'; rm -rf ~ #", "rm--rf", "'; rm -rf ~ #"),
        ("$(id)`id`%PATH%", "id-id-PATH", "$(id)`id`%PATH%"),
        ('"]\n[mcp_servers.x]\r\ncommand="sh', "mcp_servers-x-command-sh", '"] [mcp_servers.x] command="sh'),
        ("safe\u202egnp.exe\u200b\x1b[31m", "safe-gnp-exe-31m", "safe gnp.exe [31m"),
        ("Bestellungen für Köln", "Bestellungen-f-r-K-ln", "Bestellungen für Köln"),
        ("日本語", "mcp", "日本語"),
        ("\ud800", "mcp", "mcp"),
        ("", "mcp", "mcp"),
        ("x" * 500, "x" * 64, "x" * 500),
    ],
)
def test_name_is_sanitized_for_clients_and_labels(name: str, client_name: str, label: str) -> None:
    connection = ServerConnection(name, URL)
    assert (connection.client_name, connection.label) == (client_name, label)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", connection.client_name)


def test_label_is_title_and_client_name_is_name() -> None:
    connection = ServerConnection("orders", URL, title="Orders and stock")
    assert (connection.client_name, connection.label) == ("orders", "Orders and stock")


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "http://127.0.0.1:8000/mcp",
        "http://[::1]:8000/mcp",
        "https://mcp.example.com",
        "https://mcp.example.com/a%20b/mcp?x=$(id)&y='z';(w)!*~",
        "https://xn--mnchen-3ya.example/mcp",
    ],
)
def test_valid_url_is_accepted(url: str) -> None:
    assert ServerConnection("name", url).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/mcp",
        "mcp.example.com/mcp",
        "ftp://mcp.example.com/mcp",
        "javascript:alert(1)//https://x",
        "--header",
        "https:///mcp",
        "https://user:password@mcp.example.com/mcp",
        "https://mcp.example.com:0/mcp",
        "https://mcp.example.com:65536/mcp",
        "https://mcp.example.com:99999999999/mcp",
        "https://[nonsense]/mcp",
        "https://[:::::]/mcp",
        "https://mcp.example.com/mcp#part",
        "https://mcp.example.com/m cp",
        "https://mcp.example.com/mcp\n",
        "https://mcp.example.com/`id`",
        'https://mcp.example.com/"x',
        "https://mcp.example.com/<script>",
        "https://mcp.example.com/${env:HOME}",
        "https://mcp.example.com/100%",
        "https://mcp.example.com/x\\y",
        "https://münchen.example/mcp",
        "https://mcp.example.com/\u202e",
        "https://mcp.example.com/" + "x" * 3000,
    ],
)
def test_invalid_url_is_rejected(url: str) -> None:
    assert not is_address(url)
    with pytest.raises(ValueError, match="is not an address like"):
        ServerConnection("name", url)


@pytest.mark.parametrize("key", ["", "two words", 'x"; id #', "x\r\nCookie: y", "schlüssel", "$KEY"])
def test_key_unfit_for_header_is_rejected_without_echo(key: str) -> None:
    with pytest.raises(ValueError, match="no Authorization header") as refused:
        ServerConnection("name", URL, key=key)
    assert not key or key not in str(refused.value)
