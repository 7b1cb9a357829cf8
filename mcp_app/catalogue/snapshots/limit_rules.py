"""All limits in use: the rules of administrators, and those that tools have by their own fields."""

from __future__ import annotations

from mcp_app.catalogue.snapshots.current_snapshot import loaded
from mcp_app.limits import current
from mcp_app.limits.rules import Rule


def all_rules() -> list[Rule]:
    """Return the rules that this process applies, those of tools last. May block on the database."""
    current.load_if_old()
    return [*current.holder.rules.rules, *of_tools()]


def of_tools() -> list[Rule]:
    """Return the rules of the tools with calls per minute, by name."""
    rules = (Rule.of_tool(tool) for _, tool in sorted(loaded().tools.items()))
    return [rule for rule in rules if rule is not None]
