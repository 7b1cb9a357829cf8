"""Tools that ask the client: forms, URLs, its model, its roots."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from pydantic import BaseModel, Field

from mcp_app import Context, tool
from mcp_app.protocol.errors import UrlElicitationRequired


class Size(enum.Enum):
    """A choice."""

    SMALL = "small"
    LARGE = "large"


class Order(BaseModel):
    """A form as a pydantic model."""

    name: str = Field(min_length=2, title="Your name")
    count: int = Field(default=1, ge=1, le=9)
    size: Size = Size.SMALL
    gift: bool = False
    note: str | None = None


@dataclass
class Trip:
    """A form as a data class."""

    city: str
    days: int


class Pet(TypedDict):
    """A form as a typed dictionary."""

    name: str
    age: int


TYPES: dict[str, Any] = {
    "bool": bool,
    "str": str,
    "int": int,
    "float": float,
    "enum": Size,
    "literal": Literal["red", "blue"],
    "model": Order,
    "dataclass": Trip,
    "typed_dict": Pet,
}


@tool
async def ask(ctx: Context, form: dict[str, Any]) -> str:
    """Ask with the given form."""
    answer = await ctx.aelicit("Please fill in.", form)
    return json.dumps({"action": answer.action, "content": answer.content})


@tool
def ask_in_thread(ctx: Context, form: dict[str, Any]) -> str:
    """Ask with the given form from a thread."""
    answer = ctx.elicit("Please fill in.", form)
    return json.dumps({"action": answer.action, "content": answer.content})


@tool
async def ask_type(ctx: Context, kind: str) -> str:
    """Ask for a value of a Python type."""
    answer = await ctx.aelicit("Please fill in.", TYPES[kind])
    return f"{answer.action} {bool(answer)} {answer.value!r}"


@tool
async def ask_by_url(ctx: Context, url: str) -> str:
    """Ask the user to open a page and report its completion."""
    answer = await ctx.aelicit_url("Please sign there.", url, "signature-1")
    if answer:
        ctx.elicitation_complete("signature-1")
    return answer.action


@tool
async def demand_url() -> str:
    """Fail until the user has visited a page."""
    step = {
        "mode": "url",
        "elicitationId": "consent-1",
        "url": "https://pages.example/consent",
        "message": "Agree.",
    }
    raise UrlElicitationRequired("Agree first.", data={"elicitations": [step]})


@tool(timeout=0.4)
async def ask_with_deadline(ctx: Context) -> str:
    """Ask, but time out before a response."""
    return (await ctx.aelicit("Quick!", bool)).action


@tool
async def sample(
    ctx: Context, options: dict[str, Any] | None = None, messages: list[dict[str, Any]] | None = None
) -> str:
    """Sample the client's model and return its text or the refusal."""
    result = await ctx.asample(messages or "Say hello.", max_tokens=50, **(options or {}))
    return json.dumps(result)


@tool
def sample_in_thread(ctx: Context) -> str:
    """Sample the client's model from a thread."""
    return json.dumps(ctx.sample("Say hello.", max_tokens=50))


@tool
async def roots(ctx: Context) -> str:
    """Return the client's roots."""
    return json.dumps(await ctx.aroots())


@tool
def roots_in_thread(ctx: Context) -> str:
    """Return the client's roots from a thread."""
    return json.dumps(ctx.roots())
