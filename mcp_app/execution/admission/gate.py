"""The gate: all checks in their order, for event loops and for threads."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

from mcp_app.catalogue.snapshots.entries import ToolEntry
from mcp_app.catalogue.snapshots.view import CatalogueView
from mcp_app.conf import Settings
from mcp_app.execution.admission.checks import ORDER, Inline, LimitRules, Queued
from mcp_app.limits.current import buckets_of, holder
from mcp_app.protocol.errors import McpError
from mcp_app.protocol.refusals import Code, refused
from mcp_app.streams.gateway import Streams

# The holder of the rules of this process. Without rules, ``active`` is False.
rules = holder
# The counts of a call, or () if no rule limits it.
limits_of = buckets_of
# The fields of a tool that enable further checks. If none is set, only ``RunningLimit`` can refuse a call.
checked_fields: Final = attrgetter("background", *(limit for kind in ORDER for limit in kind.limits))


class CallGate:
    """The checks of one web process and the counts behind them."""

    def __init__(self, streams: Streams, settings: Settings) -> None:
        # ``Background.accept`` runs these checks itself, because it attaches repeated requests to their
        # calls.
        every = tuple(kind(streams, settings) for kind in ORDER)
        self.queued = tuple(check for check in every if check.of_queued)
        self._inline = tuple(check for check in every if check.of_inline)
        self.limiter = next(check.limiter for check in every if isinstance(check, LimitRules))

    async def admit_inline(self, call: Inline) -> None:
        """Admit a call that runs in this process. Raise McpError if a check refuses it."""
        for check in self._inline:
            if check.concerns(call):
                await check.soon(call)


def admit_now(call: Queued) -> None:
    """Admit a call that a worker will run, without an event loop. Raise McpError if a check refuses it."""
    for kind in ORDER:
        if kind.of_queued and kind.concerns(call):
            kind.now(call)


def look(view: CatalogueView, name: str, arguments: dict[str, Any]) -> tuple[ToolEntry, McpError | None]:
    """Return the tool of a call, and the error for arguments that do not match its schema (else None).

    The error is returned and not raised, because a transport may first have to reject the form of the call.
    Raise InvalidParams if the caller has no such tool.
    """
    entry = view.tool(name)
    if entry is None:
        name = name[:128]
        raise refused(Code.UNKNOWN_TOOL, f"Unknown tool: {name}", kind="tool_not_found", name=name)
    problem = entry.check(arguments)
    return entry, None if problem is None else refused(Code.INVALID_ARGUMENTS, problem)
