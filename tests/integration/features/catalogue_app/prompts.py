"""Prompts of every kind of message, completion and failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from mcp_app import Audio, Context, File, Image, Link, Message, ToolError, prompt
from tests.conformance.fixture.samples import PIXEL, SILENCE
from tests.integration.features.catalogue_app.values import ICON, MARKED, PERMISSION, WORDS

CITIES = {"ch": ["Bern", "Basel", "Zug"], "it": ["Rome", "Bari"]}


def cities(value: str, others: Mapping[str, str]) -> list[str]:
    """Return the cities of the given country, else all."""
    known = CITIES.get(others.get("country", ""), [city for found in CITIES.values() for city in found])
    return [city for city in known if city.lower().startswith(value.lower())]


@prompt
def simple() -> str:
    """Return one fixed message."""
    return "A simple prompt."


@prompt(
    title="Greeting",
    icons=[{"src": ICON, "mimeType": "image/png"}],
    meta={"example.com/colour": "blue"},
)
def greet(name: str, tone: Literal["warm", "cold"] = "warm") -> str:
    """Greets a person.

    Args:
        name: The name of the person.
    """
    return f"Greet {name} in a {tone} tone."


@prompt(completions={"word": WORDS, "city": cities})
def travel(word: str = "", country: str = "", city: str = "") -> str:
    """Complete arguments."""
    return f"{word} {country} {city}"


@prompt
async def every_content() -> list[Any]:
    """Return one message of each kind of content."""
    return [
        "words",
        Message("an answer", role="assistant"),
        Image(PIXEL, "image/png", MARKED),
        Audio(SILENCE, "audio/wav"),
        File("inside", "text/plain", "doc://inside"),
        File(b"\x00\xff", "application/octet-stream", "doc://inside-bytes"),
        Link("doc://text", "text", title="A text"),
    ]


@prompt
async def slow_prompt(ctx: Context, uri: str) -> str:
    """Read a resource of the caller and report progress."""
    ctx.progress(1, 2)
    contents = (await ctx.aread_resource(uri))["contents"]
    return f"Summarise: {contents[0]['text']}"


@prompt
def broken_prompt() -> str:
    """Fail with a message that must not leave the server."""
    raise RuntimeError("password hunter2")


@prompt
def refusing_prompt() -> str:
    """Fail with a message for the client."""
    raise ToolError("There is nothing to review today.")


@prompt
def no_message() -> Any:
    """Return a value that is not a message."""
    return object()


@prompt(permission=PERMISSION, completions={"name": ["secret-project"]})
def restricted_prompt(name: str) -> str:
    """Require a permission."""
    return f"About {name}."


def failing_words(value: str, others: Mapping[str, str]) -> list[str]:
    """Fail with a message that must not leave the server."""
    raise RuntimeError(f"password hunter2 of {value} {others}")


@prompt(completions={"word": failing_words})
def guess(word: str) -> str:
    """Fail while completing an argument."""
    return word
