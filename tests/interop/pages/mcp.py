"""Texts that clients find hard to parse, and a page that hosts show (MCP Apps)."""

from __future__ import annotations

from pathlib import Path

from mcp_app import Context, extension, resource, tool

PAGES = "io.modelcontextprotocol/ui"
KIND = "text/html;profile=mcp-app"
ADDRESS = "ui://interop/shelves.html"

extension(PAGES, settings={"mimeTypes": [KIND]})
extension("com.example/odd", settings={"nested": {"on": True, "most": 3}, "values": ["b", 4]})


@tool
async def repeat(ctx: Context, text: str) -> str:
    """Log a text in an event stream, and return it."""
    ctx.info(text)
    return text


@tool
def client_extensions(ctx: Context) -> dict[str, object]:
    """Return the extensions that the client declared, with their settings."""
    return dict(ctx.client.extensions)


@tool(meta={"ui": {"resourceUri": ADDRESS}})
def show_shelves(ctx: Context, floor: str) -> str:
    """Show where the shelves of a floor are."""
    return f"See the shelves of the {floor}." if ctx.client.can(PAGES) else f"{floor}: no pages here."


@resource(ADDRESS, mime_type=KIND)
def shelves() -> str:
    """Return the page of ``show_shelves``."""
    return Path(__file__).with_name("shelves.html").read_text(encoding="utf-8")
