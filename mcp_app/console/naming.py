"""Names in lines of the console: of callers, clients and tools."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import NamedTuple

from mcp_app.auth.principal_names import CallerName, caller_names
from mcp_app.console.line import Line
from mcp_app.interface.clients import client_names
from mcp_app.models import Tool

CALLED = "tools/call"


class Names(NamedTuple):
    """Names by principal and by session id, and primary keys of tools by name."""

    callers: dict[str, CallerName]
    clients: MutableMapping[str, str]
    tools: dict[str, int]


class Unnamed(NamedTuple):
    """The principals, sessions and tools that need a name."""

    principals: set[str]
    sessions: set[str]
    tools: set[str]


def unnamed(lines: Iterable[Line]) -> Unnamed:
    """Return the parts of lines that need a name."""
    found = Unnamed(set(), set(), set())
    for line in lines:
        found.principals.add(line.principal)
        if line.session:
            found.sessions.add(line.session)
        if line.method == CALLED and line.target:
            found.tools.add(line.target)
    return found


def look_up(wanted: Unnamed) -> Names:
    """Return the stored names."""
    tools = Tool.objects.filter(name__in=wanted.tools).values_list("name", "pk") if wanted.tools else ()
    clients = client_names(wanted.sessions) if wanted.sessions else {}
    return Names(caller_names(wanted.principals), clients, dict(tools))


def name_lines(lines: list[Line], names: Names | None = None) -> None:
    """Set the names of lines, from the database if ``names`` is None."""
    found = look_up(unnamed(lines)) if names is None else names
    for line in lines:
        line.caller = found.callers.get(line.principal)
        line.client = found.clients.get(line.session or "", "") or line.client
        line.tool = found.tools.get(line.target) if line.method == CALLED else None
