"""Tools that return the caller's permissions in a web process and in a worker, and calls that do not end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from mcp_app import Context, tool

log = logging.getLogger("mcp.tests")


def _held(ctx: Context) -> dict[str, Any]:
    scopes = ctx.principal.scopes
    return {
        "scopes": None if scopes is None else sorted(scopes),
        "administers": ctx.has_permission("mcp_app.view_tool"),
        "other": ctx.has_permission("auth.view_user"),
    }


@tool
async def held(ctx: Context) -> dict[str, Any]:
    """Return the caller's permissions in a web process."""
    return _held(ctx)


@tool(background=True)
async def held_in_worker(ctx: Context) -> dict[str, Any]:
    """Return the caller's permissions in a worker."""
    return _held(ctx)


@tool(background=True, permission="mcp_app.view_tool")
async def for_administrators(ctx: Context) -> dict[str, Any]:
    """Return the caller's permissions to administrators only."""
    return _held(ctx)


async def _waited(where: str) -> str:
    log.warning("waiting %s: began", where)
    try:
        await asyncio.sleep(3_600)
    finally:
        log.warning("waiting %s: over", where)
    return "waited"


@tool
async def wait(name: str) -> str:
    """Wait for an hour in a web process."""
    return await _waited(name)


@tool(background=True, timeout=3_600)
async def wait_in_worker(name: str) -> str:
    """Wait for an hour in a worker."""
    return await _waited(name)
