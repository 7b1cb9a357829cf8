"""Instructions that connect each known client: commands, files, links and code.

All inserted values are escaped.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from mcp_app.connect.connection import KEY_PLACEHOLDER, ServerConnection
from mcp_app.protocol.versions import V2025_11_25

# Characters that are safe between double quotes in POSIX shells, cmd.exe and PowerShell.
_DOUBLE_QUOTED = re.compile(r"[A-Za-z0-9 _.:/=@,+~?&;()\[\]-]+")
_VS_CODE_INPUT = "mcp-api-key"


@dataclass(frozen=True, slots=True)
class Snippet:
    """Instructions to connect a client.

    ``text`` is pasted at ``place``. For some clients, ``link`` installs the server.
    """

    client: str
    title: str
    place: str
    text: str
    link: str = ""
    link_text: str = ""
    note: str = ""


def snippets(connection: ServerConnection, *clients: str) -> list[Snippet]:
    """Return the snippets for these clients, or for all clients. Raises KeyError for an unknown client."""
    # Clients that send an Authorization header, even a wrong one, do not open a browser to log in.
    browsing = replace(connection, needs_key=False) if connection.logs_in else connection
    return [
        _SNIPPETS[client](browsing if client in LOGGING_IN else connection) for client in clients or _SNIPPETS
    ]


def shell_word(word: str) -> str:
    """Return ``word`` quoted for POSIX shells. If possible, the result is valid in Windows shells as well."""
    quoted = shlex.quote(word)
    return f'"{word}"' if quoted != word and _DOUBLE_QUOTED.fullmatch(word) else quoted


def literal(text: str) -> str:
    """Return ``text`` in double quotes.

    The result for ASCII text is valid in JSON, JavaScript, Python and TOML.
    """
    return json.dumps(text)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def bearer(key: str) -> str:
    """Return the value of an Authorization header with a key."""
    return f"Bearer {key}"


def _entry(connection: ServerConnection, key: str) -> dict[str, Any]:
    """Return the entry for the server in JSON configurations."""
    entry: dict[str, Any] = {"type": "http", "url": connection.url}
    if connection.needs_key:
        entry["headers"] = {"Authorization": bearer(key)}
    return entry


def header_option(connection: ServerConnection, option: str) -> str:
    """Return a command-line option that sends the key, with a leading space.

    Returns "" if the server requires no key.
    """
    return (
        f" {option} {shell_word('Authorization: ' + bearer(connection.key))}" if connection.needs_key else ""
    )


def _claude_code(connection: ServerConnection) -> Snippet:
    command = f"claude mcp add --transport http {connection.client_name} {shell_word(connection.url)}"
    text = command + header_option(connection, "--header")
    note = "Or save the configuration under Cursor, below, as .mcp.json in your project."
    return Snippet("claude-code", "Claude Code", "In a terminal", text, note=note)


def _claude(connection: ServerConnection) -> Snippet:
    query = f"connectorName={quote(connection.label, safe='')}&connectorUrl={quote(connection.url, safe='')}"
    # Claude connects to the server from its own servers, and only over https.
    link = f"https://claude.ai/customize/connectors?modal=add-custom-connector&{query}"
    note = "Claude connects from the internet, so the address must be https and publicly reachable."
    if connection.needs_key:
        note += " Connectors log in with OAuth and cannot send an API key. With a key, use the file below."
    return Snippet(
        "claude",
        "Claude Desktop and claude.ai",
        "Customize → Connectors → Add custom connector",
        f"Name: {connection.label}\nURL: {connection.url}",
        link if connection.url.startswith("https:") else "",
        "Add to Claude",
        note,
    )


def _claude_desktop(connection: ServerConnection) -> Snippet:
    arguments = ["-y", "mcp-remote", connection.url]
    if connection.url.startswith("http:"):
        arguments.append("--allow-http")
    entry: dict[str, Any] = {"command": "npx", "args": arguments}
    if connection.needs_key:
        # The argument contains no space, because some versions of Claude Desktop split it at a space.
        arguments += ["--header", "Authorization:${AUTHORIZATION}"]
        entry["env"] = {"AUTHORIZATION": bearer(connection.key)}
    return Snippet(
        "claude-desktop",
        "Claude Desktop (configuration file)",
        "claude_desktop_config.json",
        _pretty({"mcpServers": {connection.client_name: entry}}),
        note="Requires Node.js, which runs the npm package mcp-remote.",
    )


def _vscode(connection: ServerConnection) -> Snippet:
    # VS Code asks the user for the key and stores it as a secret. Neither link nor file contains the key.
    asking = _entry(connection, f"${{input:{_VS_CODE_INPUT}}}")
    question = {
        "type": "promptString",
        "id": _VS_CODE_INPUT,
        "description": f"API key of {connection.label}",
        "password": True,
    }
    inputs: dict[str, Any] = {"inputs": [question]} if connection.needs_key else {}
    file = {**inputs, "servers": {connection.client_name: asking}}
    if connection.key != KEY_PLACEHOLDER:
        file = {"servers": {connection.client_name: _entry(connection, connection.key)}}
    installed = {"name": connection.client_name, **asking, **inputs}
    return Snippet(
        "vscode",
        "VS Code",
        ".vscode/mcp.json",
        _pretty(file),
        f"vscode:mcp/install?{_twice_decoded(json.dumps(installed))}",
        "Install in VS Code",
    )


def _twice_decoded(text: str) -> str:
    """Return JSON text for a URL that VS Code decodes twice.

    Each ``%`` is written as a JSON escape, so that the second decoding does not change it.
    """
    return quote(text.replace("%", "\\u0025"), safe="")


def _cursor(connection: ServerConnection) -> Snippet:
    # Links never contain an issued key, because browsers and shells record them in histories.
    config = base64.b64encode(json.dumps(_entry(connection, KEY_PLACEHOLDER)).encode()).decode()
    query = f"name={quote(connection.client_name, safe='')}&config={quote(config, safe='')}"
    note = (
        f"After you follow the link, replace {KEY_PLACEHOLDER} with your key." if connection.needs_key else ""
    )
    return Snippet(
        "cursor",
        "Cursor",
        ".cursor/mcp.json",
        _pretty({"mcpServers": {connection.client_name: _entry(connection, connection.key)}}),
        f"cursor://anysphere.cursor-deeplink/mcp/install?{query}",
        "Install in Cursor",
        note,
    )


def _codex(connection: ServerConnection) -> Snippet:
    lines = [f"[mcp_servers.{connection.client_name}]", f"url = {literal(connection.url)}"]
    if connection.needs_key:
        lines.append(f"http_headers = {{ Authorization = {literal(bearer(connection.key))} }}")
    return Snippet("codex", "Codex", "~/.codex/config.toml", "\n".join(lines))


def _servers(connection: ServerConnection, address: str, kind: str = "") -> str:
    """Return JSON with ``mcpServers``.

    ``address`` is the name of the field in which the client expects the URL.
    """
    entry: dict[str, Any] = {"type": kind} if kind else {}
    entry[address] = connection.url
    if connection.needs_key:
        entry["headers"] = {"Authorization": bearer(connection.key)}
    return _pretty({"mcpServers": {connection.client_name: entry}})


def _gemini(connection: ServerConnection) -> Snippet:
    text = _servers(connection, "httpUrl")
    return Snippet("gemini-cli", "Gemini CLI", "~/.gemini/settings.json", text)


def _windsurf(connection: ServerConnection) -> Snippet:
    text = _servers(connection, "serverUrl")
    return Snippet("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", text)


def _cline(connection: ServerConnection) -> Snippet:
    place = "MCP Servers → Configure → Configure MCP Servers (cline_mcp_settings.json)"
    return Snippet("cline", "Cline", place, _servers(connection, "url", "streamableHttp"))


def _roo_code(connection: ServerConnection) -> Snippet:
    text = _servers(connection, "url", "streamable-http")
    return Snippet("roo-code", "Roo Code", ".roo/mcp.json", text)


def _zed(connection: ServerConnection) -> Snippet:
    entry = {name: value for name, value in _entry(connection, connection.key).items() if name != "type"}
    text = _pretty({"context_servers": {connection.client_name: entry}})
    return Snippet("zed", "Zed", "settings.json", text)


def _goose(connection: ServerConnection) -> Snippet:
    # A string in double quotes means the same in YAML as in JSON.
    lines = [
        "extensions:",
        f"  {connection.client_name}:",
        f"    name: {literal(connection.client_name)}",
        "    type: streamable_http",
        "    enabled: true",
        f"    uri: {literal(connection.url)}",
        "    timeout: 300",
    ]
    if connection.needs_key:
        lines += ["    headers:", f"      Authorization: {literal(bearer(connection.key))}"]
    return Snippet("goose", "Goose", "~/.config/goose/config.yaml", "\n".join(lines))


def _inspector(connection: ServerConnection) -> Snippet:
    command = (
        f"npx @modelcontextprotocol/inspector --server-url {shell_word(connection.url)} --transport http"
    )
    text = command + header_option(connection, "--header")
    # If Node.js is older, npx installs an old version of the inspector, which fails with an obscure error.
    return Snippet(
        "inspector", "MCP Inspector", "In a terminal", text, note="Requires Node.js 22.19 or later."
    )


_PYTHON = """\
import asyncio

from mcp import Client

URL = {url}


async def main() -> None:
    async with Client(URL) as client:
        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())"""
_PYTHON_WITH_KEY = """\
import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

URL = {url}
HEADERS = {{"Authorization": {bearer}}}


async def main() -> None:
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=httpx2.Timeout(30, read=300)) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    ):
        for tool in (await client.list_tools()).tools:
            print(tool.name)


asyncio.run(main())"""


def _python(connection: ServerConnection) -> Snippet:
    template = _PYTHON_WITH_KEY if connection.needs_key else _PYTHON
    text = template.format(url=literal(connection.url), bearer=literal(bearer(connection.key)))
    return Snippet("python", "Python SDK", "pip install mcp", text)


_TYPESCRIPT = """\
import {{ Client, StreamableHTTPClientTransport }} from "@modelcontextprotocol/client";

const url = new URL({url});
const transport = new StreamableHTTPClientTransport(url{options});
const client = new Client({{ name: "my-client", version: "1.0.0" }});
await client.connect(transport);
console.log((await client.listTools()).tools.map((tool) => tool.name));
await client.close();"""


def _typescript(connection: ServerConnection) -> Snippet:
    headers = f"{{ Authorization: {literal(bearer(connection.key))} }}"
    options = f", {{\n  requestInit: {{ headers: {headers} }},\n}}" if connection.needs_key else ""
    text = _TYPESCRIPT.format(url=literal(connection.url), options=options)
    return Snippet("typescript", "TypeScript SDK", "npm install @modelcontextprotocol/client", text)


def _curl(connection: ServerConnection) -> Snippet:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": V2025_11_25,
            "capabilities": {},
            "clientInfo": {"name": "curl", "version": "1"},
        },
    }
    lines = [
        f"curl -i {shell_word(connection.url)}",
        *([header_option(connection, "-H").strip()] if connection.needs_key else []),
        '-H "Content-Type: application/json"',
        '-H "Accept: application/json, text/event-stream"',
        f"-d {shlex.quote(json.dumps(message, separators=(',', ':')))}",
    ]
    return Snippet("curl", "curl", "In a POSIX shell", " \\\n  ".join(lines))


_SNIPPETS: dict[str, Callable[[ServerConnection], Snippet]] = {
    "claude-code": _claude_code,
    "claude": _claude,
    "claude-desktop": _claude_desktop,
    "vscode": _vscode,
    "cursor": _cursor,
    "codex": _codex,
    "gemini-cli": _gemini,
    "windsurf": _windsurf,
    "zed": _zed,
    "cline": _cline,
    "roo-code": _roo_code,
    "goose": _goose,
    "inspector": _inspector,
    "python": _python,
    "typescript": _typescript,
    "curl": _curl,
}
CLIENTS = tuple(_SNIPPETS)
# Clients that open a browser to log in (see docs/oauth.md).
LOGGING_IN = frozenset({"claude-code", "claude", "claude-desktop", "vscode", "cursor", "inspector"})
# The clients that are shown where space is limited.
PASTED = ("claude-code", "vscode", "cursor", "codex")
