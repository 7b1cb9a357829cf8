"""Data of the page that shows the differences between a document and its tools."""

from __future__ import annotations

from typing import Any, Final

from mcp_app.admin.entries.differences import label
from mcp_app.admin.markup import badge, diff
from mcp_app.catalogue.documents.updating import ToolChange, UpdatePlan

MOST_SHOWN: Final = 200
_TONES: Final = {"changed": "info", "gone": "bad"}


def context_of(plan: UpdatePlan) -> dict[str, Any]:
    """Return the template context of an update."""
    return {
        "changes": [_shown(each) for each in plan.changes[:MOST_SHOWN]],
        "not_shown": max(0, len(plan.changes) - MOST_SHOWN),
        "added": plan.added[:MOST_SHOWN],
        "more_added": max(0, len(plan.added) - MOST_SHOWN),
        "unchanged": plan.unchanged,
        "seen": plan.sha256,
    }


def _shown(change: ToolChange) -> dict[str, Any]:
    taken = [part for part in change.parts if not part.kept]
    old = {part.name: part.old for part in taken}
    new = {part.name: part.new for part in taken}
    return {
        "key": change.key,
        "name": change.tool.name,
        "badge": badge(change.action, _TONES[change.action]),
        "reason": change.reason,
        "waits": change.waits,
        "kept": [label(part.name) for part in change.parts if part.kept],
        "lines": diff(old, new) if taken else [],
    }
