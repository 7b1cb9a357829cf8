"""Builders of catalogue entries by kind, from stored rows and the definitions of their sources."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from mcp_app import conf
from mcp_app.catalogue.definitions.definition import (
    InvalidArgumentsError,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
    ToolFunction,
    Wire,
)
from mcp_app.catalogue.definitions.tool_limits import APPROVAL_MINUTES, COLUMNS
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.snapshots.entries import Order, PromptEntry, ResourceEntry, ToolEntry
from mcp_app.catalogue.snapshots.identity import identity_of
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.sources.precedence import described, overlaid, stated
from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool
from mcp_app.models.catalogue import Row
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages import uri_template

APPROVAL_HINT = "django-mcp/needsApproval"

log = logging.getLogger("mcp.catalogue")


def tool(row: Tool, definition: ToolDefinition) -> ToolEntry:
    """Build the entry of a tool: its definition with the administrator's texts, permission and limits."""
    settings, whole = conf.get(), definition.whole_input
    values = overlaid(stated(definition, definition.wire), row)
    wire = described(definition.wire, values)
    limits = _limits(values, definition)
    # Background tools may run long. If they set no timeout, only the hard limit applies.
    usual = settings.tool_timeout_max_seconds if limits["background"] else settings.tool_timeout_seconds
    limits["timeout"] = min(limits["timeout"] or usual, settings.tool_timeout_max_seconds)
    output = wire.get("outputSchema")
    return ToolEntry(
        name=definition.name,
        identity=identity_of(row),
        wire=_announced(wire, definition, limits),
        function=definition.function,
        input=validation.compile_schema(wire["inputSchema"]),
        output=None if output is None else validation.compile_schema(output),
        task_required=definition.task_required,
        asks_first=definition.asks_first,
        wraps_result=definition.wraps_result,
        param_headers=param_headers.read(wire["inputSchema"]),
        permission=values["permission"],
        tags=tuple(values["tags"]),
        source=row.source,
        fixed_arguments=definition.fixed_arguments,
        whole_input=None if whole is None else validation.compile_schema(whole),
        secret_names=frozenset(_secret_names(wire["inputSchema"])),
        order=order_of(row),
        **limits,
    )


def _secret_names(schema: Any) -> Iterator[str]:
    """Yield the properties that an input schema marks as secret, at any depth (S14)."""
    if isinstance(schema, list):
        for item in schema:
            yield from _secret_names(item)
    elif isinstance(schema, dict):
        properties = schema.get("properties")
        for name, member in properties.items() if isinstance(properties, dict) else ():
            if isinstance(member, dict) and (
                member.get("writeOnly") is True or member.get("format") == "password"
            ):
                yield name
        for item in schema.values():
            yield from _secret_names(item)


def _limits(values: Mapping[str, Any], definition: ToolDefinition) -> dict[str, Any]:
    """Return the effective limits, without unsafe retries."""
    limits = {name: values[column] for name, column in COLUMNS.items()}
    limits["background"] = limits["background"] or limits["needs_approval"]
    limits["approval_minutes"] = limits["approval_minutes"] or APPROVAL_MINUTES
    if definition.wire.get("annotations", {}).get("idempotentHint") is not True:
        # The tool may have been idempotent when an administrator allowed retries (R6).
        limits["retries"] = 0
    return limits


def _announced(wire: Wire, definition: ToolDefinition, limits: Mapping[str, Any]) -> Wire:
    """Add the approval hint and task support (TASK4-02) to a definition.

    The task support is sent to clients of 2025-11-25 only.
    """
    settings, announced = conf.get(), dict(wire)
    if limits["needs_approval"]:
        announced["_meta"] = {**wire.get("_meta", {}), APPROVAL_HINT: True}
    if limits["background"] and settings.core_tasks and settings.redis_url:
        announced["execution"] = {"taskSupport": "required" if definition.task_required else "optional"}
    return announced


def prompt(row: Prompt, definition: PromptDefinition) -> PromptEntry:
    """Build the entry of a prompt."""
    arguments = definition.wire.get("arguments", [])
    values = overlaid(stated(definition, definition.wire), row)
    return PromptEntry(
        name=definition.name,
        wire=described(definition.wire, values),
        function=definition.function,
        template=definition.template,
        permission=values["permission"],
        tags=tuple(values["tags"]),
        source=row.source,
        required=tuple(item["name"] for item in arguments if item.get("required")),
        declared=frozenset(item["name"] for item in arguments),
        choices=definition.choices,
        completions=definition.completions,
        order=order_of(row),
    )


def resource(row: Resource | ResourceTemplate, definition: ResourceDefinition) -> ResourceEntry:
    """Build the entry of a resource or template."""
    template = uri_template.compile(definition.uri) if definition.is_template else None
    values = overlaid(stated(definition, definition.wire), row)
    return ResourceEntry(
        uri=definition.uri,
        wire=described(definition.wire, values),
        function=definition.function,
        permission=values["permission"],
        tags=tuple(values["tags"]),
        source=row.source,
        mime_type=definition.wire.get("mimeType", ""),
        match=None if template is None else partial(_match, template, definition.function),
        static=definition.static,
        variables=() if template is None else template.names,
        completions=definition.completions,
        content_revision=definition.content_revision,
        order=order_of(row),
    )


def _match(
    template: uri_template.UriTemplate, function: ToolFunction | None, uri: str
) -> dict[str, str] | None:
    """Return the variables of a URI that fits the template and the function's types, else None."""
    variables = template.match(uri)
    if variables is None or function is None or function.bind is dict:
        return variables
    try:
        function.bind(dict(variables))
    except InvalidArgumentsError:
        return None
    return variables


def order_of(row: Row) -> Order:
    """Return the sort key of a row in lists. Entries of code come first, in their order (TOOL-04)."""
    return (source_of(row).rank, row.position, row.pk)


BUILDERS: Final[dict[type[Row], Callable[[Any, Any], Any]]] = {
    Tool: tool,
    Prompt: prompt,
    Resource: resource,
    ResourceTemplate: resource,
}
