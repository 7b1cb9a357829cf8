"""Each client reads the exact name, address and key from its snippet."""

from __future__ import annotations

import ast
import base64
import json
import re
import shlex
import subprocess
import tomllib
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection
from mcp_app.connect.snippets import CLIENTS, LOGGING_IN, PASTED, Snippet, snippets

HOSTILE_URL = "https://mcp.example.com/a%20b%2525/mcp?x=$(id)&y='z';(w)!*~&p=+c:/%41"
HOSTILE_NAME = "'\"; $(id) `id` %PATH%\n[x]\u202e&<script>ü"
URLS = ["https://mcp.example.com/mcp", "http://127.0.0.1:8000/mcp", "http://[::1]:8000/mcp", HOSTILE_URL]
SECRET = "mcp_abc-DEF_123"
BEARER = f"Bearer {KEY_PLACEHOLDER}"


def one(client: str, connection: ServerConnection) -> Snippet:
    (found,) = snippets(connection, client)
    return found


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["key", "no-key"])
def connection(request: pytest.FixtureRequest, url: str) -> ServerConnection:
    return ServerConnection(HOSTILE_NAME, url, needs_key=request.param)


def entry_of(connection: ServerConnection, bearer: str = BEARER) -> dict[str, Any]:
    headers = {"headers": {"Authorization": bearer}} if connection.needs_key else {}
    return {"type": "http", "url": connection.url, **headers}


def words_as_a_shell_reads_them(line: str) -> list[str]:
    script = f'set -- {line}\nprintf "%s\\0" "$@"'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


@pytest.mark.process
@pytest.mark.parametrize(
    ("client", "start"),
    [
        ("claude-code", ["claude", "mcp", "add", "--transport", "http", "NAME", "URL"]),
        (
            "inspector",
            ["npx", "@modelcontextprotocol/inspector", "--server-url", "URL", "--transport", "http"],
        ),
    ],
)
def test_command_line_passes_one_shell_word_per_argument(
    client: str, start: list[str], connection: ServerConnection
) -> None:
    meant = [{"NAME": connection.client_name, "URL": connection.url}.get(word, word) for word in start] + (
        ["--header", f"Authorization: {BEARER}"] if connection.needs_key else []
    )
    line = one(client, connection).text
    assert "\n" not in line
    assert shlex.split(line) == meant
    assert words_as_a_shell_reads_them(line) == meant


def test_ordinary_command_line_has_no_single_quotes() -> None:
    for url in URLS[:3]:
        assert "'" not in one("claude-code", ServerConnection("django-mcp", url)).text
        assert "'" not in one("inspector", ServerConnection("django-mcp", url)).text


@pytest.mark.process
def test_curl_snippet_sends_initialize(connection: ServerConnection) -> None:
    words = words_as_a_shell_reads_them(one("curl", connection).text)
    assert words[:3] == ["curl", "-i", connection.url]
    options = list(zip(words[3::2], words[4::2], strict=True))
    assert (("-H", f"Authorization: {BEARER}") in options) == connection.needs_key
    assert json.loads(dict(options)["-d"])["method"] == "initialize"


def test_claude_snippet_has_label_url_and_connector_link(connection: ServerConnection) -> None:
    found = one("claude", connection)
    assert found.text == f"Name: {connection.label}\nURL: {connection.url}"
    assert ("OAuth" in found.note) == connection.needs_key
    if connection.url.startswith("http:"):
        assert found.link == ""
        return
    link = urlsplit(found.link)
    assert f"{link.scheme}://{link.netloc}{link.path}" == "https://claude.ai/customize/connectors"
    assert parse_qs(link.query) == {
        "modal": ["add-custom-connector"],
        "connectorName": [connection.label],
        "connectorUrl": [connection.url],
    }


def test_claude_desktop_snippet_starts_bridge_with_key_in_environment(connection: ServerConnection) -> None:
    (entry,) = json.loads(one("claude-desktop", connection).text)["mcpServers"].values()
    assert entry["args"][:3] == ["-y", "mcp-remote", connection.url]
    assert ("--allow-http" in entry["args"]) == connection.url.startswith("http:")
    assert not [argument for argument in entry["args"] if " " in argument]
    assert entry.get("env") == ({"AUTHORIZATION": BEARER} if connection.needs_key else None)
    assert ("Authorization:${AUTHORIZATION}" in entry["args"]) == connection.needs_key


def test_vscode_snippet_prompts_for_key_and_link_survives_double_decoding(
    connection: ServerConnection,
) -> None:
    asking = entry_of(connection, "Bearer ${input:mcp-api-key}")
    found = one("vscode", connection)
    file = json.loads(found.text)
    assert file["servers"] == {connection.client_name: asking}
    assert [item["id"] for item in file.get("inputs", ())] == ["mcp-api-key"] * connection.needs_key
    start, _, query = found.link.partition("?")
    assert start == "vscode:mcp/install"
    assert re.fullmatch(r"[A-Za-z0-9%_.~-]+", query)
    installed = {"name": connection.client_name, **asking}
    if connection.needs_key:
        installed["inputs"] = file["inputs"]
    assert json.loads(unquote(query)) == json.loads(unquote(unquote(query))) == installed


def test_cursor_file_and_link_have_same_entry(connection: ServerConnection) -> None:
    found = one("cursor", connection)
    assert json.loads(found.text) == {"mcpServers": {connection.client_name: entry_of(connection)}}
    link = urlsplit(found.link)
    assert f"{link.scheme}://{link.netloc}{link.path}" == "cursor://anysphere.cursor-deeplink/mcp/install"
    query = parse_qs(link.query, strict_parsing=True)
    assert query["name"] == [connection.client_name]
    config = base64.b64decode(query["config"][0], validate=True)
    assert json.loads(config) == entry_of(connection)


@pytest.mark.parametrize(
    ("client", "servers", "entry"),
    [
        ("gemini-cli", "mcpServers", {"httpUrl": "URL"}),
        ("windsurf", "mcpServers", {"serverUrl": "URL"}),
        ("cline", "mcpServers", {"type": "streamableHttp", "url": "URL"}),
        ("roo-code", "mcpServers", {"type": "streamable-http", "url": "URL"}),
        ("zed", "context_servers", {"url": "URL"}),
    ],
)
def test_json_snippet_has_member_names_of_its_client(
    client: str, servers: str, entry: dict[str, str], connection: ServerConnection
) -> None:
    meant: dict[str, Any] = {name: value.replace("URL", connection.url) for name, value in entry.items()}
    if connection.needs_key:
        meant["headers"] = {"Authorization": BEARER}
    assert json.loads(one(client, connection).text) == {servers: {connection.client_name: meant}}


def test_goose_snippet_is_yaml_with_one_extension(connection: ServerConnection) -> None:
    meant: dict[str, Any] = {
        "name": connection.client_name,
        "type": "streamable_http",
        "enabled": True,
        "uri": connection.url,
        "timeout": 300,
    }
    if connection.needs_key:
        meant["headers"] = {"Authorization": BEARER}
    assert yaml.safe_load(one("goose", connection).text) == {"extensions": {connection.client_name: meant}}


def test_inspector_note_names_required_node_version(connection: ServerConnection) -> None:
    assert "22.19" in one("inspector", connection).note


def test_codex_snippet_is_toml_with_one_server(connection: ServerConnection) -> None:
    headers = {"http_headers": {"Authorization": BEARER}} if connection.needs_key else {}
    assert tomllib.loads(one("codex", connection).text) == {
        "mcp_servers": {connection.client_name: {"url": connection.url, **headers}}
    }


def test_python_snippet_parses_and_contains_url_and_key(
    connection: ServerConnection,
) -> None:
    tree = ast.parse(one("python", connection).text)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert connection.url in texts
    assert (BEARER in texts) == connection.needs_key


def test_typescript_snippet_contains_url_and_key(
    connection: ServerConnection,
) -> None:
    texts = [json.loads(text) for text in re.findall(r'"[^"]*"', one("typescript", connection).text)]
    assert connection.url in texts
    assert (BEARER in texts) == connection.needs_key


@pytest.mark.parametrize("client", CLIENTS)
def test_issued_key_is_in_text_and_never_in_link(client: str, url: str) -> None:
    found = one(client, ServerConnection("django-mcp", url, key=SECRET))
    assert (SECRET in found.text) == (client != "claude")
    assert SECRET not in found.link
    assert SECRET not in unquote(found.link)
    assert base64.b64encode(SECRET.encode())[:12].decode() not in found.link


@pytest.mark.parametrize("client", CLIENTS)
def test_snippet_without_key_has_no_authorization_or_placeholder(client: str, url: str) -> None:
    found = one(client, ServerConnection("django-mcp", url, needs_key=False))
    assert "authorization" not in f"{found.text}{unquote(found.link)}".lower()
    assert KEY_PLACEHOLDER not in f"{found}"


def test_snippets_are_ordered_and_unknown_client_raises_key_error() -> None:
    connection = ServerConnection("django-mcp", URLS[0])
    assert tuple(found.client for found in snippets(connection)) == CLIENTS
    assert [found.client for found in snippets(connection, *PASTED)] == list(PASTED)
    with pytest.raises(KeyError):
        snippets(connection, "netscape")


@pytest.mark.parametrize("client", CLIENTS)
def test_oauth_server_gives_no_key_to_clients_with_login(client: str, url: str) -> None:
    keyless, keyed = ServerConnection("orders", url, needs_key=False), ServerConnection("orders", url)
    found = one(client, ServerConnection("orders", url, logs_in=True))
    assert found == one(client, keyless if client in LOGGING_IN else keyed)
