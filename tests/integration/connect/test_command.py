"""``manage.py mcp_snippets``: readable output, one text for a pipe, JSON for programs; without a database."""

from __future__ import annotations

import json
import tomllib
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.snippets import CLIENTS, snippets

PUBLIC = "https://mcp.example.com"
URL = f"{PUBLIC}/mcp"


@pytest.fixture(autouse=True)
def _public() -> Any:
    with override_settings(MCP={"PUBLIC_URL": PUBLIC, "SERVER_NAME": "orders"}):
        yield


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("mcp_snippets", *arguments, stdout=out)
    return out.getvalue()


def test_all_clients_are_printed_readably() -> None:
    text = printed()
    for snippet in snippets(ServerConnection("orders", URL)):
        assert f"== {snippet.title} ({snippet.client}): {snippet.place}\n{snippet.text}\n" in text
        assert snippet.link in text
    assert "== MCP registries (server.json)" in text


@pytest.mark.parametrize("client", CLIENTS)
def test_client_option_prints_its_text_only(client: str) -> None:
    (snippet,) = snippets(ServerConnection("orders", URL), client)
    assert printed("--client", client) == f"{snippet.text}\n"


def test_printed_text_is_a_valid_configuration_file() -> None:
    assert tomllib.loads(printed("--client", "codex"))["mcp_servers"]["orders"]["url"] == URL
    assert json.loads(printed("--client", "server.json"))["name"] == "com.example.mcp/orders"


def test_json_option_prints_a_list_of_objects() -> None:
    everything = json.loads(printed("--json"))
    assert [item["client"] for item in everything] == [*CLIENTS, "server.json"]
    (cursor,) = json.loads(printed("--json", "--client", "cursor"))
    assert cursor["link"].startswith("cursor://")


def test_url_option_replaces_the_address() -> None:
    assert "'https://other.example/mcp?a=$(id)'" in printed(
        "--client", "claude-code", "--url", "https://other.example/mcp?a=$(id)"
    )


def test_unknown_client_error_lists_the_known_ones() -> None:
    with pytest.raises(CommandError) as refused:
        printed("--client", "netscape")
    assert str(refused.value) == (
        f"There is no client 'netscape'. Known clients: {', '.join(CLIENTS)}, server.json."
    )


@pytest.mark.parametrize(
    ("public_url", "url", "complaint"),
    [
        (PUBLIC, "mcp.example.com", "'mcp.example.com' is not an address like"),
        (PUBLIC, "https://x/\n", "is not an address like"),
        ("", "", "PUBLIC_URL"),
        ("mcp.example.com", "", "must be an http or https address, got 'mcp.example.com'"),
    ],
)
def test_invalid_address_is_refused_in_one_line(public_url: str, url: str, complaint: str) -> None:
    with override_settings(MCP={"PUBLIC_URL": public_url}), pytest.raises(CommandError, match=complaint):
        printed("--url", url)


def test_key_placeholder_appears_only_if_a_key_is_needed() -> None:
    assert "YOUR_API_KEY" in printed()
    with override_settings(MCP={"AUTH": "loopback", "PUBLIC_URL": "http://127.0.0.1:8000"}):
        assert "YOUR_API_KEY" not in printed()
        assert "YOUR_API_KEY" in printed("--url", URL)
