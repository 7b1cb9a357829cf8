"""Tools that return immediately: every kind of content, listing and limit."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Literal

from pydantic import Field

from mcp_app import Audio, Context, File, Image, Link, Text, ToolResult, tool
from tests.conformance.fixture.samples import PIXEL, SILENCE
from tests.integration.features.catalogue_app.values import (
    EVERY_KEYWORD,
    ICON,
    MARKED,
    PERMISSION,
    SEVENTH_DRAFT,
)


@tool
def plain_text() -> str:
    """Return a fixed text."""
    return "plain"


@tool
async def plain_text_async() -> str:
    """Return a fixed text from a coroutine."""
    return "plain"


@tool
def echo(text: str) -> str:
    """Return the given text."""
    return text


@tool
def measure(
    size: Annotated[int, Field(ge=1, le=10, description="How large.")],
    unit: Literal["m", "km"] = "m",
    tags: list[str] | None = None,
) -> str:
    """Return the arguments as JSON.

    Args:
        unit: The unit of measurement.
    """
    return json.dumps({"size": size, "unit": unit, "tags": tags})


@tool
def no_content() -> None:
    """Return None."""


@tool
def every_block() -> list[Text | Image | Audio | File | Link]:
    """Return one block of every kind, each with annotations."""
    return [
        Text("words", MARKED),
        Image(PIXEL, "image/png", MARKED),
        Audio(SILENCE, "audio/wav", MARKED),
        File("inside", "text/plain", "doc://inside", MARKED),
        File(b"\x00\xff", "application/octet-stream", "doc://inside-bytes"),
        Link(
            "doc://text",
            "text",
            title="A text",
            description="Read it.",
            mime_type="text/plain",
            size=4,
            annotations=MARKED,
        ),
    ]


@tool(
    title="A dressed tool",
    icons=[{"src": ICON, "mimeType": "image/png", "sizes": ["48x48"]}],
    meta={"example.com/colour": "green"},
    read_only=True,
    destructive=False,
    idempotent=True,
    open_world=False,
)
def dressed() -> dict[str, int]:
    """Define every member of a tool."""
    return {"one": 1}


@tool(input_schema=EVERY_KEYWORD)
def every_keyword(**arguments: Any) -> str:
    """Accept arguments described by many keywords."""
    return json.dumps(arguments, sort_keys=True)


@tool(input_schema=SEVENTH_DRAFT)
def seventh_draft(**arguments: Any) -> str:
    """Accept arguments described in an older dialect."""
    return json.dumps(arguments, sort_keys=True)


@tool(permission=PERMISSION)
def restricted() -> str:
    """Require a permission."""
    return "for the few"


@tool(calls_per_minute=3)
def limited() -> str:
    """Allow three calls per minute."""
    return "within the limit"


@tool(max_result_tokens=10_000_000)
def large(size: int) -> str:
    """Return a text of that many characters."""
    return "x" * size


@tool
def with_metadata() -> ToolResult:
    """Return custom metadata and structured content."""
    return ToolResult("told", structured={"told": True}, meta={"example.com/trace": "1"})


@tool
async def caller(ctx: Context) -> dict[str, Any]:
    """Return the caller's visible data."""
    user = await ctx.auser()
    return {
        "request_id": ctx.request_id,
        "version": ctx.protocol_version,
        "session": ctx.session_id,
        "client": ctx.client.name,
        "samples": ctx.client.can("sampling"),
        "user": user.get_username(),
        "permitted": ctx.has_permission(PERMISSION),
    }


@tool
async def read(ctx: Context, uri: str) -> str:
    """Return the content that the caller can read at a URI."""
    return json.dumps(await ctx.aread_resource(uri))


@tool
def read_in_thread(ctx: Context, uri: str) -> str:
    """Return the content that the caller can read at a URI, from a thread."""
    return json.dumps(ctx.read_resource(uri))


@tool
def metadata(ctx: Context) -> str:
    """Return the metadata of the request."""
    return json.dumps(ctx.meta)


@tool
def read_slowly_in_thread(ctx: Context, uri: str) -> str:
    """Report the start, then return the content that the caller can read at a URI."""
    ctx.info("reading")
    time.sleep(0.1)
    return json.dumps(ctx.read_resource(uri))
