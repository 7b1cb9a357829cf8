"""Tools, prompts and resources of every shape that the bench shows, and hostile texts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp_app import Audio, Context, File, Image, Link, Text, prompt, resource, tool
from tests.conformance.fixture.samples import PIXEL, SILENCE
from tests.samples.admin_seed import ALL_HOSTILE, HOSTILE

ORDER: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "address": {
            "type": "object",
            "title": "Address",
            "properties": {
                "street": {"type": "string", "minLength": 2},
                "country": {"$ref": "#/$defs/country"},
            },
            "required": ["street"],
        },
        "country": {
            "oneOf": [{"const": "ch", "title": "Switzerland"}, {"const": "fr", "title": "France"}],
            "default": "ch",
        },
        "comment": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "replies": {"type": "array", "items": {"$ref": "#/$defs/comment"}},
            },
            "required": ["text"],
        },
    },
    "properties": {
        "customer": {"type": "string", "title": "Customer", "description": "Who orders."},
        "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        "address": {"$ref": "#/$defs/address"},
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "price": {"type": "number"}},
                "required": ["sku"],
            },
        },
        "colours": {"type": "array", "uniqueItems": True, "items": {"enum": ["red", "green", "blue"]}},
        "pay": {
            "oneOf": [
                {
                    "title": "by card",
                    "type": "object",
                    "properties": {"kind": {"const": "card"}, "last4": {"type": "string"}},
                    "required": ["kind", "last4"],
                },
                {
                    "title": "by invoice",
                    "type": "object",
                    "properties": {"kind": {"const": "invoice"}, "days": {"type": "integer", "default": 30}},
                    "required": ["kind", "days"],
                },
            ]
        },
        "gift": {"type": "boolean", "default": False},
        "due": {"type": "string", "format": "date"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "thread": {"$ref": "#/$defs/comment"},
        "anything": {"description": "No type at all."},
    },
    "required": ["customer", "address", "items"],
    "additionalProperties": True,
}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


@tool(input_schema=ORDER)
async def order(**arguments: Any) -> str:
    """Return the arguments as JSON."""
    return json.dumps(arguments, sort_keys=True)


@tool
async def every_content() -> list[Text | Image | Audio | File | Link]:
    """Return one block of every kind."""
    return [
        Text("# Report\n\nAll **good**:\n\n- one\n- two `three`\n"),
        Text(json.dumps({"a": [1, {"b": None}]})),
        Image(PIXEL, "image/png"),
        Audio(SILENCE, "audio/wav"),
        File("inside", "text/plain", "doc://inside"),
        Link("notes://today", "today", title="Today's notes"),
    ]


HOSTILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        HOSTILE["image"]: {
            "type": "string",
            "title": HOSTILE["script"],
            "description": ALL_HOSTILE,
            "default": HOSTILE["svg"],
        },
        "__proto__": {"type": "string", "title": HOSTILE["bidi"]},
        "choice": {
            "enum": [HOSTILE["script"], HOSTILE["bidi"]],
            "enumNames": [HOSTILE["breakout"], HOSTILE["image"]],
        },
    },
}


@tool(input_schema=HOSTILE_SCHEMA, title=HOSTILE["image"])
async def hostile(ctx: Context, **arguments: Any) -> list[Text | Image | File | Link]:
    """Return hostile text in every kind of block."""
    ctx.progress(1, 2, ALL_HOSTILE)
    ctx.info(ALL_HOSTILE)
    answer = await ctx.aelicit(
        ALL_HOSTILE,
        {
            "type": "object",
            "properties": {"a": {"type": "string", "title": HOSTILE["script"], "description": ALL_HOSTILE}},
        },
    )
    return [
        Text(ALL_HOSTILE),
        Text("# " + ALL_HOSTILE + "\n\n- " + HOSTILE["image"] + "\n"),
        Text(json.dumps(HOSTILE)),
        Image(b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=8'/>", "image/svg+xml"),
        File(ALL_HOSTILE, HOSTILE["image"], "doc://inside"),
        Link(HOSTILE["url"], HOSTILE["script"], title=HOSTILE["svg"]),
        Text(answer.action),
    ]


@tool(input_schema=EMPTY)
async def ask_model(ctx: Context) -> str:
    """Request a message from the client's model."""
    result = await ctx.asample("What is the capital of France?", max_tokens=50)
    return str(result["content"]["text"])


@tool(input_schema=EMPTY, needs_approval=True)
async def wait_for_approval() -> str:
    """Run after an approval."""
    return "approved"


@tool(input_schema=EMPTY)
async def ask_visit(ctx: Context) -> str:
    """Elicit a visit of an address."""
    answer = await ctx.aelicit_url("Please pay first.", "https://example.com/pay?a=1", "pay-1")
    return str(answer.action)


@tool(input_schema=EMPTY)
async def broken_stream(ctx: Context) -> str:
    """Close the connection midway; the response waits for the client to resume."""
    ctx.info("before")
    ctx.close_stream(retry_ms=50)
    await asyncio.sleep(0.3)
    return "resumed"


@tool(permission="auth.view_group")
def whoami(ctx: Context) -> str:
    """Return the caller's name; needs a permission."""
    return str(ctx.user)


@prompt(completions={"city": ["Bern", "Berlin", "Basel"]})
def travel(city: str, style: str = "") -> str:
    """Ask for a journey."""
    return f"Plan a journey to {city} {style}".strip()


@resource("notes://today", mime_type="text/markdown")
def today() -> str:
    """Return notes in Markdown."""
    return "# Today\n\n- bread\n- milk\n"


@tool(max_result_tokens=500)
async def long_rows(count: int) -> Any:
    """Return many rows."""
    return [{"id": number, "name": f"row {number}"} for number in range(count)]
