"""The order of the gate: all of its checks, once, for event loops and for threads."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.admission.checks import ORDER, Inline, Queued
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.refusals import Code, refused
from mcp_app.streams.gateway import Streams

# The marks of a tool whose calls pass more checks before they begin; to others only ``Running`` may object.
marks: Final = attrgetter("background", *(kind.limit for kind in ORDER if kind.limit))


class CallGate:
    """The checks of one web process, on its streams and with what it counted."""

    def __init__(self, streams: Streams, settings: Settings) -> None:
        # Awaited one after the other by ``Background.accept``, which attaches a repeated request instead.
        self.queued = tuple(kind(streams, settings) for kind in ORDER if kind.of_queued)
        self._inline = tuple(kind(streams, settings) for kind in ORDER if kind.of_inline)

    async def admit_inline(self, call: Inline) -> None:
        """Admit a call that runs in this process; raises McpError."""
        for check in self._inline:
            if check.concerns(call):
                await check.soon(call)


def admit_now(call: Queued) -> None:
    """Admit a call that a worker is to run, for code without an event loop; raises McpError."""
    for kind in ORDER:
        if kind.of_queued and kind.concerns(call):
            kind.now(call)


def look(view: CatalogueView, name: str, arguments: dict[str, Any]) -> tuple[ToolEntry, McpError | None]:
    """Return the tool of a call, and the refusal of arguments that do not fit its schema.

    The caller raises that one, as a transport may have to refuse the form of the call first. Raises
    InvalidParams when there is no such tool for the caller.
    """
    entry = view.tool(name)
    if entry is None:
        name = name[:128]
        raise refused(Code.UNKNOWN_TOOL, f"Unknown tool: {name}", kind="tool_not_found", name=name)
    problem = entry.check(arguments)
    return entry, None if problem is None else refused(Code.INVALID_ARGUMENTS, problem)
