"""Waiting calls in tests: what they are bound to, and the rows of tools that it is compared with."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.execution.stored.approved_work import work_of
from mcp_app.models import Tool

# Beyond the numbers of rows that a test makes.
FIRST_KEY = 900_000


def guarded_tool(name: str = "work", **fields: Any) -> Tool:
    """A tool that is not stored, with the same key for the same name."""
    return Tool(pk=FIRST_KEY + sum(name.encode()), name=name, **fields)


def bound(arguments: dict[str, Any], tool: Tool | None = None, revision: int = 0) -> dict[str, Any]:
    """The columns of a call that waits for approval of this work."""
    work = work_of(identity_of(tool or guarded_tool()), arguments)
    return {"work": work, "catalogue_revision": revision}
