"""The tools that a client reaches with a connection, for the consent page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.auth.permissions import permissions_of
from mcp_app.auth.principal import below
from mcp_app.catalogue.effects import Effect, effect_of
from mcp_app.catalogue.snapshots.current_snapshot import refreshed_view
from mcp_app.protocol import scopes

MOST_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class ReachedTool:
    """A tool that a client may call."""

    name: str
    title: str
    effect: Effect


@dataclass(frozen=True, slots=True)
class Reach:
    """The tools that a client may call, those that change data first."""

    tools: list[ReachedTool]

    @property
    def listed(self) -> list[ReachedTool]:
        """The tools that the page lists."""
        return self.tools[:MOST_LISTED]

    @property
    def more(self) -> int:
        """The number of tools that the page does not list."""
        return len(self.tools) - len(self.listed)

    @property
    def changing(self) -> list[ReachedTool]:
        """The tools that are not read-only."""
        return [tool for tool in self.tools if tool.effect is not Effect.READS]

    @property
    def example(self) -> ReachedTool | None:
        """The tool with the strongest effect on data, or None if all tools are read-only."""
        return next(iter(self.changing), None)


def reach_of(user: Any, granted: Iterable[str], path: str) -> Reach | None:
    """Return the tools that a user's client may call at a server, or None without the scope for tools."""
    held = scopes.widened(granted)
    if scopes.TOOLS not in held:
        return None
    view = refreshed_view(below(held, permissions_of(user)), path)
    entries = sorted(view.snapshot.tools.values(), key=lambda entry: entry.order)
    found = [
        ReachedTool(entry.name, str(entry.wire.get("title") or ""), effect_of(entry.wire.get("annotations")))
        for entry in entries
        if view.tool(entry.name) is not None
    ]
    return Reach(sorted(found, key=lambda tool: _STRENGTH.index(tool.effect)))


_STRENGTH: Final = (Effect.DESTROYS, Effect.CHANGES, Effect.UNKNOWN, Effect.READS)
