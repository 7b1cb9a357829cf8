"""Sources for tests: tools that administrators make, and tools that are copied from a feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp_app.catalogue.definitions.definition import Definition, ToolDefinition, ToolFunction
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.lookup import SOURCES
from mcp_app.models import Tool


def schema(text: str) -> dict[str, Any]:
    """Return an input schema that holds the text of a greeting."""
    return {"type": "object", "title": text, "properties": {"who": {"type": "string"}}, "required": ["who"]}


def greeting(name: str, arguments: Mapping[str, Any]) -> ToolDefinition:
    """Return a tool whose result is the text of its input schema."""

    async def say(who: str) -> str:
        return str(arguments["title"]).format(who=who)

    return ToolDefinition(
        name=name,
        wire={"name": name, "description": "Greet.", "inputSchema": dict(arguments)},
        function=ToolFunction(call=say, is_async=True, context_name=None, bind=dict),
        code_path="",
    )


class GreetingSource(Source):
    """Greetings that administrators write."""

    stored = label = "greeting"
    kinds = (Tool,)
    origin = unserved = ""
    travels = True
    own_fields = {Tool: ("name", "input_schema")}
    adding = {Tool: Adding("greeting", "A tool that says a text of yours.")}

    def definition(self, row: Any) -> Definition:
        return greeting(row.name, row.input_schema)

    def check(self, row: Any, errors: Errors) -> None:
        if not row.input_schema.get("title"):
            errors["input_schema"] = ["Write the text as its title."]


class FeedSource(Source):
    """Greetings copied from a feed, each with the feed's language."""

    stored = label = "feed"
    kinds = (Tool,)
    origin = "the feed"
    unserved = ""

    def __init__(self) -> None:
        self.language = "en"

    def definition(self, row: Any) -> Definition:
        return greeting(row.name, row.definition["inputSchema"])

    def columns(self, definition: Definition) -> dict[str, Any]:
        return {"fixed_arguments": {"language": self.language}}

    def check(self, row: Any, errors: Errors) -> None:
        if len(row.input_schema["title"]) > 100:
            errors["input_schema"] = ["The text is longer than 100 characters."]


@contextmanager
def registered(source: Source) -> Iterator[Source]:
    """Register a source inside the block."""
    SOURCES.append(source)
    yield source
    SOURCES.remove(source)
