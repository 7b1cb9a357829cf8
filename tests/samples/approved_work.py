"""Pending calls in tests: the columns they are bound to, and the tools these are compared with."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.execution.stored.approved_work import work_of
from mcp_app.models import Tool

# Higher than any primary key that a test creates.
FIRST_KEY = 900_000


def guarded_tool(name: str = "work", **fields: Any) -> Tool:
    """Return an unsaved tool whose primary key depends only on the name."""
    return Tool(pk=FIRST_KEY + sum(name.encode()), name=name, **fields)


def bound(arguments: dict[str, Any], tool: Tool | None = None, revision: int = 0) -> dict[str, Any]:
    """Return the columns of a call that is pending approval of this work."""
    work = work_of(identity_of(tool or guarded_tool()), arguments)
    return {"work": work, "catalogue_revision": revision}
