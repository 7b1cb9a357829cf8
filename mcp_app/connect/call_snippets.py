"""Snippets that repeat a request of the test bench with curl or with the Python SDK."""

from __future__ import annotations

import json
import shlex
from typing import Any, Final

from mcp_app.connect.connection import ServerConnection
from mcp_app.connect.snippets import Snippet, bearer, header_option, literal, shell_word
from mcp_app.protocol.versions import V2025_11_25

# For each method, the function of the SDK's client and the function's first argument.
_CALLS: Final = {
    "tools/call": ("call_tool", "name"),
    "prompts/get": ("get_prompt", "name"),
    "resources/read": ("read_resource", "uri"),
}
METHODS: Final = tuple(_CALLS)


def call_snippets(connection: ServerConnection, method: str, params: dict[str, Any]) -> list[Snippet]:
    """Return a curl command and Python code that send a request.

    Raises KeyError for a method that is not in ``METHODS``.
    """
    return [_curl(connection, method, params), _python(connection, method, params)]


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_CURL = """\
mcp() {{
  curl -sS -N {url} \\
    -H "Content-Type: application/json" -H "Accept: application/json, text/event-stream" \\
{key}    "$@"
}}
session=$(mcp -D - -o /dev/null -d {initialize} |
  sed -n 's/^[Mm][Cc][Pp]-[Ss]ession-[Ii]d: *\\([^[:space:]]*\\).*/\\1/p')
mcp -H "Mcp-Session-Id: $session" -d {initialized}
mcp -H "Mcp-Session-Id: $session" -d {request}
mcp -H "Mcp-Session-Id: $session" -X DELETE"""


def _curl(connection: ServerConnection, method: str, params: dict[str, Any]) -> Snippet:
    client = {"name": "curl", "version": "1"}
    opening = {"protocolVersion": V2025_11_25, "capabilities": {}, "clientInfo": client}
    option = header_option(connection, "-H").strip()
    messages = {
        "initialize": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening},
        "initialized": {"jsonrpc": "2.0", "method": "notifications/initialized"},
        "request": {"jsonrpc": "2.0", "id": 2, "method": method, "params": params},
    }
    quoted = {name: shlex.quote(_compact(message)) for name, message in messages.items()}
    key = f"    {option} \\\n" if option else ""
    text = _CURL.format(url=shell_word(connection.url), key=key, **quoted)
    return Snippet("curl", "curl", "In a POSIX shell", text)


_PYTHON = """\
{imports}

URL = {url}
{constants}

async def main() -> None:
    async with {opened}:
        result = await client.{call}
        print(result.model_dump_json(indent=2, by_alias=True, exclude_none=True))


asyncio.run(main())"""
_CLIENT = "from mcp import Client"
_CLIENT_WITH_KEY = """\
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client"""
_OPENED = "Client(URL) as client"
_OPENED_WITH_KEY = """(
        httpx2.AsyncClient(headers=HEADERS, timeout=httpx2.Timeout(30, read=300)) as http,
        Client(streamable_http_client(URL, http_client=http)) as client,
    )"""


def _python(connection: ServerConnection, method: str, params: dict[str, Any]) -> Snippet:
    function, name = _CALLS[method]
    key, arguments = connection.needs_key, params.get("arguments")
    imports = ["import asyncio", *(["import json"] if arguments else []), ""]
    constants = []
    if key:
        constants.append(f'HEADERS = {{"Authorization": {literal(bearer(connection.key))}}}\n')
    if arguments:
        # The arguments are a JSON string, because ``true`` and ``null`` are not valid Python.
        constants.append(f"ARGUMENTS = json.loads({_compact(arguments)!r})\n")
    text = _PYTHON.format(
        imports="\n".join([*imports, _CLIENT_WITH_KEY if key else _CLIENT]),
        url=literal(connection.url),
        constants="".join(constants),
        opened=_OPENED_WITH_KEY if key else _OPENED,
        call=f"{function}({params[name]!r}{', ARGUMENTS' if arguments else ''})",
    )
    return Snippet("python", "Python SDK", "pip install mcp", text)
