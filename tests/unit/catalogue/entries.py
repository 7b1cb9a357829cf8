"""Catalogue entries without a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_app import prompt, resource, tool
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.snapshots import entry_builder
from mcp_app.catalogue.snapshots.entries import PromptEntry, ResourceEntry, ToolEntry
from mcp_app.models import Prompt, Resource, ResourceTemplate, StoredSource, Tool


def tool_entry(function: Callable[..., Any], number: int = 1, **options: Any) -> ToolEntry:
    """Return the entry of a function decorated with ``@tool(**options)``."""
    with registry.isolated() as alone:
        tool(**options)(function)
        (definition,) = alone.tools.values()
    return entry_builder.tool(_row(Tool, number), definition)


def prompt_entry(function: Callable[..., Any], number: int = 1, **options: Any) -> PromptEntry:
    """Return the entry of a function decorated with ``@prompt(**options)``."""
    with registry.isolated() as alone:
        prompt(**options)(function)
        (definition,) = alone.prompts.values()
    return entry_builder.prompt(_row(Prompt, number), definition)


def resource_entry(function: Callable[..., Any], uri: str, number: int = 1, **options: Any) -> ResourceEntry:
    """Return the entry of a function decorated with ``@resource(uri, **options)``."""
    with registry.isolated() as alone:
        resource(uri, **options)(function)
        (definition,) = [*alone.resources.values(), *alone.templates.values()]
    kind = ResourceTemplate if definition.is_template else Resource
    return entry_builder.resource(_row(kind, number), definition)


def _row(kind: type[Any], number: int) -> Any:
    return kind(pk=number, position=number * 10, source=StoredSource.CODE)
