"""Servers in the configuration files of MCP clients, and in ``server.json`` of the MCP registry.

Known forms are ``mcpServers`` (Claude, Cursor, Windsurf, Gemini), ``servers`` and ``mcp.servers`` (VS Code),
and a description of the registry, alone or with its ``server`` member. Comments and commas at the end are
accepted, because some of these files allow them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

MAX_TEXT: Final = 262_144
MAX_SERVERS: Final = 100
# Each pattern also matches a string or comment without an end, so that no text is searched to its end twice.
_STRING: Final = r'"(?:\\.|[^"\\])*+(?:"|\\?\Z)'
_OPEN_COMMENT: Final = r"/\*(?:(?!\*/).)*+\Z"
_STRING_OR_COMMENT: Final = re.compile(rf"({_STRING}|{_OPEN_COMMENT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING_OR_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
# Clients replace these by values that are not in the file: ${env:TOKEN}, ${input:token}, {tenant}.
_PLACEHOLDER: Final = re.compile(r"\$\{[^{}]*\}|\{[^{}/]+\}")
_URLS: Final = ("url", "serverUrl", "httpUrl")
_COMMAND: Final = (
    "This server is a local command. Add the command to UPSTREAM_COMMANDS in the settings under this name, "
    "and then add the server again."
)
_OPEN_URL: Final = "The address has a placeholder: enter the server by hand."


class ConfigurationError(ValueError):
    """A text that is not a configuration. The message names the problem and the remedy."""


@dataclass(frozen=True, slots=True)
class ConfiguredServer:
    """A server in a configuration. With a ``problem`` it cannot be added.

    A server with ``is_command`` can be added if the settings have a command with its name. The command line
    in the file is not used.
    ``headers`` have their values. ``open_headers`` are names of headers whose values are not in the file.
    """

    name: str
    url: str = ""
    problem: str = ""
    is_command: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    open_headers: tuple[str, ...] = ()


def read(text: str) -> list[ConfiguredServer]:
    """Return the servers of a configuration. Raise ConfigurationError if it has none."""
    if len(text) > MAX_TEXT:
        raise ConfigurationError(f"The text is longer than {MAX_TEXT // 1024} KiB.")
    given = _json(text)
    if not isinstance(given, dict):
        raise ConfigurationError("The text is not a JSON object.")
    found = list(_described(given) if _is_description(given) else _configured(given))
    if not found:
        raise ConfigurationError("The text has none of the members mcpServers, servers and remotes.")
    if len(found) > MAX_SERVERS:
        raise ConfigurationError(f"The text has more than {MAX_SERVERS} servers.")
    return _with_names(found)


def _json(text: str) -> Any:
    plain = _STRING_OR_COMMENT.sub(lambda match: match[1] or " ", text.lstrip("\ufeff"))
    plain = _STRING_OR_COMMA.sub(lambda match: match[1] or " ", plain)
    try:
        return json.loads(plain)
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigurationError(f"The text is not JSON{where}. Paste the whole file.") from None


def _is_description(given: Mapping[str, Any]) -> bool:
    inner = given.get("server", given)
    return isinstance(inner, dict) and ("remotes" in inner or "packages" in inner)


def _configured(given: Mapping[str, Any]) -> Iterator[ConfiguredServer]:
    inner = given.get("mcp")
    for holder in (given, inner if isinstance(inner, dict) else {}):
        for member in ("mcpServers", "servers"):
            listed = holder.get(member)
            for name, server in listed.items() if isinstance(listed, dict) else ():
                yield _server(str(name), server)


def _server(name: str, given: Any) -> ConfiguredServer:
    if not isinstance(given, dict):
        return ConfiguredServer(name, problem="This is not an object.")
    url = next((given[each] for each in _URLS if isinstance(given.get(each), str)), "")
    if not url:
        is_command = "command" in given
        problem = _COMMAND if is_command else "There is no address."
        return ConfiguredServer(name, problem=problem, is_command=is_command)
    headers = given.get("headers")
    return _remote(name, url, headers if isinstance(headers, dict) else {})


def _described(given: Mapping[str, Any]) -> Iterator[ConfiguredServer]:
    server = given.get("server", given)
    name = str(server.get("name") or "server").rpartition("/")[2]
    remotes = server.get("remotes")
    for remote in remotes if isinstance(remotes, list) else ():
        if isinstance(remote, dict) and isinstance(remote.get("url"), str):
            given_headers = remote.get("headers")
            headers = {
                str(each.get("name")): each["value"] if isinstance(each.get("value"), str) else "{value}"
                for each in (given_headers if isinstance(given_headers, list) else ())
                if isinstance(each, dict)
            }
            yield _remote(name, remote["url"], headers)
    if not remotes:
        yield ConfiguredServer(name, problem=_COMMAND, is_command=True)


def _remote(name: str, url: str, headers: Mapping[Any, Any]) -> ConfiguredServer:
    if _PLACEHOLDER.search(url):
        return ConfiguredServer(name, url, problem=_OPEN_URL)
    texts = {str(key): str(value).strip() for key, value in headers.items()}
    unknown = tuple(key for key, value in texts.items() if not value or _PLACEHOLDER.search(value))
    known = {key: value for key, value in texts.items() if key not in unknown}
    return ConfiguredServer(name, url, headers=known, open_headers=unknown)


def _with_names(servers: list[ConfiguredServer]) -> list[ConfiguredServer]:
    """Return the servers with names that can be stored, each once."""
    taken: set[str] = set()
    found = []
    for server in servers:
        base = re.sub(r"[^a-z0-9_-]+", "-", server.name.lower()).strip("-_")[:60] or "server"
        name, number = base, 2
        while name in taken:
            name, number = f"{base}-{number}", number + 1
        taken.add(name)
        found.append(replace(server, name=name))
    return found
