"""What the caller may do, as code sees it in a web process and in a worker."""

from __future__ import annotations

from typing import Any

from mcp_app import Context, tool


def _held(ctx: Context) -> dict[str, Any]:
    scopes = ctx.principal.scopes
    return {
        "scopes": None if scopes is None else sorted(scopes),
        "administers": ctx.has_permission("mcp_app.view_tool"),
        "other": ctx.has_permission("auth.view_user"),
    }


@tool
async def held(ctx: Context) -> dict[str, Any]:
    """Tells from a web process."""
    return _held(ctx)


@tool(background=True)
async def held_in_worker(ctx: Context) -> dict[str, Any]:
    """Tells from a worker."""
    return _held(ctx)


@tool(background=True, permission="mcp_app.view_tool")
async def for_administrators(ctx: Context) -> dict[str, Any]:
    """Tells only those who administer."""
    return _held(ctx)
