"""Builds catalogue entries from stored rows and the functions that code registered."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

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
from mcp_app.catalogue.serving import static_content
from mcp_app.catalogue.serving.entries import Order, PromptEntry, ResourceEntry, ToolEntry
from mcp_app.catalogue.serving.identity import identity_of
from mcp_app.catalogue.sources.precedence import described, overlaid, stated
from mcp_app.models import Prompt, Resource, ResourceTemplate, Source, Tool
from mcp_app.protocol.http import param_headers
from mcp_app.protocol.messages import uri_template

APPROVAL_HINT = "django-mcp/needsApproval"

log = logging.getLogger("mcp.catalogue")
Row = Tool | Prompt | Resource | ResourceTemplate


def code_tool(row: Tool, definition: ToolDefinition) -> ToolEntry:
    """A code-defined tool under the administrator's title, description, permission and limits."""
    values = overlaid(stated(definition, definition.wire), row)
    return _tool(
        row,
        name=definition.name,
        wire=described(definition.wire, values),
        values=values,
        definition=definition,
        function=definition.function,
    )


def preset_tool(row: Tool, base: Tool, definition: ToolDefinition) -> ToolEntry:
    """An existing tool under another name with some arguments fixed, which cannot be sent any more."""
    fixed = dict(row.fixed_arguments)
    beneath = overlaid(stated(definition, definition.wire), base)
    values = overlaid({**beneath, "title": row.name}, row)
    wire = described({**described(definition.wire, beneath), "name": row.name}, values)
    wire["inputSchema"] = without_arguments(definition.wire["inputSchema"], fixed)
    inner = definition.function
    function = replace(inner, bind=lambda given: inner.bind({**given, **fixed}))
    return _tool(
        row, name=row.name, wire=wire, values=values, definition=definition, function=function, fixed=fixed
    )


def arguments_of(row: Tool) -> Any:
    """Return the input schema of a stored tool; of a preset, without the arguments that are fixed."""
    if row.preset_of is None:
        return row.input_schema
    return without_arguments(row.preset_of.input_schema, row.fixed_arguments)


def without_arguments(schema: Wire, names: Mapping[str, Any]) -> Wire:
    """An input schema without the named properties."""
    reduced = dict(schema)
    reduced["properties"] = {
        key: value for key, value in schema.get("properties", {}).items() if key not in names
    }
    required = [name for name in schema.get("required", ()) if name not in names]
    reduced.pop("required", None)
    if required:
        reduced["required"] = required
    return reduced


def _tool(
    row: Tool,
    *,
    name: str,
    wire: Wire,
    values: Mapping[str, Any],
    definition: ToolDefinition,
    function: ToolFunction,
    fixed: Mapping[str, Any] | None = None,
) -> ToolEntry:
    settings = conf.get()
    limits = _limits(values, definition)
    # A background tool is long by nature: only the hard limit ends it when nothing else was asked for.
    usual = settings.tool_timeout_max_seconds if limits["background"] else settings.tool_timeout_seconds
    limits["timeout"] = min(limits["timeout"] or usual, settings.tool_timeout_max_seconds)
    output = wire.get("outputSchema")
    return ToolEntry(
        name=name,
        identity=identity_of(row),
        wire=_announced(wire, definition, limits),
        function=function,
        input=validation.compile_schema(wire["inputSchema"]),
        output=None if output is None else validation.compile_schema(output),
        task_required=definition.task_required,
        asks_first=definition.asks_first,
        wraps_result=definition.wraps_result,
        param_headers=param_headers.read(wire["inputSchema"]),
        permission=values["permission"],
        fixed_arguments=fixed or {},
        whole_input=validation.compile_schema(definition.wire["inputSchema"]) if fixed else None,
        secret_names=frozenset(_secret_names(wire["inputSchema"])),
        order=order_of(row),
        **limits,
    )


def _secret_names(schema: Any) -> Iterator[str]:
    """The properties an input schema marks as secret, at any depth (S14)."""
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
    """Return the limits as they hold for calls: completed, and without retries that are not safe."""
    limits = {name: values[column] for name, column in COLUMNS.items()}
    limits["background"] = limits["background"] or limits["needs_approval"]
    limits["approval_minutes"] = limits["approval_minutes"] or APPROVAL_MINUTES
    if definition.wire.get("annotations", {}).get("idempotentHint") is not True:
        # Also when it was idempotent while an administrator allowed some (R6).
        limits["retries"] = 0
    return limits


def _announced(wire: Wire, definition: ToolDefinition, limits: Mapping[str, Any]) -> Wire:
    """The definition with what clients should know of how it is run.

    That a call waits for a person, perhaps for long; and whether it may be a core task (TASK4-02), which
    only clients of 2025-11-25 are shown.
    """
    settings, announced = conf.get(), dict(wire)
    if limits["needs_approval"]:
        announced["_meta"] = {**wire.get("_meta", {}), APPROVAL_HINT: True}
    if limits["background"] and settings.core_tasks and settings.redis_url:
        announced["execution"] = {"taskSupport": "required" if definition.task_required else "optional"}
    return announced


def code_prompt(row: Prompt, definition: PromptDefinition) -> PromptEntry:
    """A code-defined prompt with the administrator's overrides."""
    arguments = definition.wire.get("arguments", [])
    values = overlaid(stated(definition, definition.wire), row)
    return PromptEntry(
        name=definition.name,
        wire=described(definition.wire, values),
        function=definition.function,
        permission=values["permission"],
        required=tuple(item["name"] for item in arguments if item.get("required")),
        declared=frozenset(item["name"] for item in arguments),
        choices=definition.choices,
        completions=definition.completions,
        order=order_of(row),
    )


def admin_prompt(row: Prompt) -> PromptEntry:
    """An admin-made prompt: text with placeholders."""
    wire = described({"name": row.name, "title": row.name}, overlaid({}, row))
    if row.arguments:
        wire["arguments"] = row.arguments
    return PromptEntry(
        name=row.name,
        wire=wire,
        function=None,
        template=row.template,
        permission=row.permission,
        required=tuple(item["name"] for item in row.arguments if item.get("required")),
        declared=frozenset(item["name"] for item in row.arguments),
        order=order_of(row),
    )


def code_resource(row: Resource | ResourceTemplate, definition: ResourceDefinition) -> ResourceEntry:
    """A code-defined resource or template with the administrator's overrides."""
    template = uri_template.compile(definition.uri)
    values = overlaid(stated(definition, definition.wire), row)
    return ResourceEntry(
        uri=definition.uri,
        wire=described(definition.wire, values),
        function=definition.function,
        permission=values["permission"],
        mime_type=definition.wire.get("mimeType", ""),
        match=partial(_match, template, definition.function) if definition.is_template else None,
        variables=template.names,
        completions=definition.completions,
        order=order_of(row),
    )


def _match(template: uri_template.UriTemplate, function: ToolFunction, uri: str) -> dict[str, str] | None:
    """The variables of a URI that fits the template and the types of the function."""
    variables = template.match(uri)
    if variables is None or function.bind is dict:
        return variables
    try:
        function.bind(dict(variables))
    except InvalidArgumentsError:
        return None
    return variables


def admin_resource(row: Resource) -> ResourceEntry:
    """An admin-made resource: its text, its uploaded file, or the file its ``file:`` URI names."""
    mime_type = admin_mime_type(row.mime_type, str(row.file.name or ""), row.uri, row.text)
    if row.file:
        static = static_content.upload_reader(str(row.file.name), mime_type)
    elif _names_file(row.uri, row.text):
        static = static_content.directory_reader(mime_type)
    else:
        static = static_content.text_reader(row.text, mime_type)
    wire = described({"uri": row.uri, "name": row.name, "mimeType": mime_type}, overlaid({}, row))
    if row.annotations:
        wire["annotations"] = row.annotations
    return ResourceEntry(
        uri=row.uri,
        wire=wire,
        function=None,
        permission=row.permission,
        mime_type=mime_type,
        static=static,
        content_revision=row.content_revision,
        order=order_of(row),
    )


def admin_mime_type(mime_type: str, file: str, uri: str, text: str) -> str:
    """What an admin-made resource is listed as: what was said, else what its file's name suggests."""
    if mime_type:
        return mime_type
    if file:
        return static_content.guess_mime_type(file)
    return static_content.guess_mime_type(uri) if _names_file(uri, text) else "text/plain"


def _names_file(uri: str, text: str) -> bool:
    return uri.lower().startswith("file:") and not text


def order_of(row: Row) -> Order:
    """Code entries first in the order of the code, then the others (TOOL-04)."""
    return (0 if row.source == Source.CODE else 1, row.position, row.pk)
