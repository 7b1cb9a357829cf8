"""The three tools of a toolset that is searched instead of listed: find tools, and call what was found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from django.db import DatabaseError

from mcp_app import conf
from mcp_app.catalogue.definitions.content import ToolError
from mcp_app.catalogue.definitions.definition import ToolFunction
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.search import misses
from mcp_app.catalogue.search.index import Described, ToolIndex
from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.database.queries import aquery

FIND: Final = "find_tools"
READ: Final = "call_read_tool"
WRITE: Final = "call_write_tool"
NAMES: Final = (FIND, READ, WRITE)
MAX_FOUND: Final = 20
USUAL: Final = 5
# A query whose best tool has less than this share of its words counts as not found.
FITS: Final = 0.5
_LONGEST_TEXT: Final = 1_000

_QUERY: Final = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 500,
            "description": "What the tool must do, in a few English words.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_FOUND,
            "description": f"The largest number of tools to return. The default is {USUAL}.",
        },
    },
    "required": ["query"],
}
_CALL: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": f"The name of a tool, from {FIND}."},
        "arguments": {"type": "object", "description": "The arguments of that tool, by its inputSchema."},
    },
    "required": ["name"],
}
_READS: Final = {"readOnlyHint": True, "openWorldHint": True}


class ToolSearch:
    """The searchable members of a toolset. ``keywords`` are an administrator's words by tool."""

    def __init__(self, slug: str, tools: Iterable[ToolEntry], keywords: Mapping[str, str]) -> None:
        self.slug, self._tools, self._keywords = slug, tuple(tools), keywords

    @cached_property
    def index(self) -> ToolIndex:
        """The index of the members, built when it is first used."""
        usable = (entry for entry in self._tools if entry.wire)
        return ToolIndex(_described(entry, self._keywords.get(entry.name, "")) for entry in usable)

    def entries(self) -> list[ToolEntry]:
        """Return the entries of the three tools."""
        return [
            _entry(0, FIND, _FIND_TEXT, _QUERY, _READS, self.find),
            _entry(1, READ, _READ_TEXT, _CALL, _READS, self.explain_read),
            _entry(2, WRITE, _WRITE_TEXT, _CALL, {"openWorldHint": True}, self.explain_write),
        ]

    async def find(self, ctx: Any, query: str, limit: int = USUAL) -> list[dict[str, Any]]:
        """Return the definitions of the tools that fit a query and that the caller may use, best first."""
        view: CatalogueView = ctx.catalogue
        # Indexing a thousand tools takes a third of a second of processor time.
        found = await asyncio.to_thread(lambda: self.index.find(query))
        names = [each for each in found if view.tool(each.name) is not None][:limit]
        if not names or names[0].fit < FITS:
            with suppress(DatabaseError):
                await aquery(misses.record, self.slug, query)
        return [_shown(entry) for each in names if (entry := view.tool(each.name)) is not None]

    def relayed(self, view: CatalogueView, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the params of the call that ``call_read_tool`` or ``call_write_tool`` stands for.

        Everything that follows then concerns the inner tool: permission, arguments, approval, limits and log.
        Return None for other calls, and for calls that cannot be made, which the two tools explain.
        """
        name, given = params.get("name"), params.get("arguments")
        if name not in (READ, WRITE) or type(given) is not dict:
            return None
        wanted, arguments = given.get("name"), given.get("arguments", {})
        if type(wanted) is not str or type(arguments) is not dict or wanted in NAMES:
            return None
        entry = view.tool(wanted)
        if entry is None or (name == READ and not _reads(entry)):
            return None
        return {**params, "name": wanted, "arguments": arguments}

    async def explain_read(self, ctx: Any, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Raise ToolError for a call that ``relayed`` could not make."""
        view: CatalogueView = ctx.catalogue
        if view.tool(name) is not None:
            raise ToolError(f"{name[:128]} may change data: use {WRITE}.")
        raise _missing(name)

    async def explain_write(self, ctx: Any, name: str, arguments: Mapping[str, Any] | None = None) -> None:
        """Raise ToolError for a call that ``relayed`` could not make."""
        raise _missing(name)


def _missing(name: str) -> ToolError:
    return ToolError(f"There is no tool {name[:128]!r} for you here. Use {FIND} to find one.")


def _described(entry: ToolEntry, keywords: str) -> Described:
    wire = entry.wire
    title = wire.get("title") or (wire.get("annotations") or {}).get("title") or ""
    arguments = tuple((wire["inputSchema"].get("properties") or {}).keys())
    return Described(entry.name, title, wire.get("description") or "", arguments, entry.tags, keywords)


def _reads(entry: ToolEntry) -> bool:
    hints = entry.wire.get("annotations")
    return isinstance(hints, dict) and hints.get("readOnlyHint") is True


def _shown(entry: ToolEntry) -> dict[str, Any]:
    wire = entry.wire
    shown = {name: wire[name] for name in ("name", "title") if wire.get(name)}
    if text := wire.get("description"):
        shown["description"] = text[:_LONGEST_TEXT]
    return {**shown, "inputSchema": wire["inputSchema"], "callWith": READ if _reads(entry) else WRITE}


def _entry(
    number: int, name: str, text: str, schema: dict[str, Any], hints: dict[str, Any], call: Any
) -> ToolEntry:
    settings = conf.get()
    return ToolEntry(
        name=name,
        wire={"name": name, "description": text, "inputSchema": schema, "annotations": hints},
        function=ToolFunction(call, is_async=True, bind=dict, context_name="ctx"),
        input=validation.compile_schema(schema),
        output=None,
        timeout=settings.tool_timeout_seconds,
        permission="",
        order=(0, 0, number),
    )


_FIND_TEXT: Final = (
    "Find the tools for a task. This server has more tools than it lists: describe the task, then call a "
    f"tool that was found with the tool named in its callWith ({READ} or {WRITE})."
)
_READ_TEXT: Final = f"Call a tool that {FIND} has found and that only reads data."
_WRITE_TEXT: Final = f"Call a tool that {FIND} has found and that may change data."
