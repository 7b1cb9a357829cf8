"""The source of presets. A preset is made from a tool of any other source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from django.db.models import QuerySet

from mcp_app import conf
from mcp_app.catalogue.definitions.definition import ToolDefinition
from mcp_app.catalogue.definitions.tool_limits import COLUMNS
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.sources import lookup
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors, UnfitError, collect
from mcp_app.catalogue.sources.precedence import described, overlaid, stated
from mcp_app.catalogue.sources.preset.arguments import arguments_of, without_arguments
from mcp_app.interface.text import marked
from mcp_app.models import Tool
from mcp_app.protocol.messages.names import check_name


class PresetSource(Source):
    """Tools that administrators derive from another tool, with a new name and fixed arguments."""

    stored = label = "admin"
    kinds = (Tool,)
    variety = "preset"
    tone = "good"
    origin = unserved = ""
    usual = "the value of the tool it calls"
    own_fields = {Tool: ("name", "preset_of", "fixed_arguments")}
    adding = {
        Tool: Adding(
            "preset", "A tool under a new name, with some arguments fixed.", offer="preset of a tool"
        )
    }
    related = ("preset_of",)
    travels = True

    def definition(self, row: Any) -> ToolDefinition | None:
        """Return the definition of the tool behind a preset, adapted to the preset."""
        base = self.base_of(row)
        found = lookup.source_of(base).offered(base) if base is not None and base.enabled else None
        return fixed(found.read(), base, row) if isinstance(found, ToolDefinition) and base else None

    def permission_of(self, row: Any) -> str:
        """Return the permission of the preset, or the tool's permission if the preset has none."""
        base = self.base_of(row)
        if row.permission or base is None:
            return str(row.permission)
        return lookup.source_of(base).permission_of(base)

    def problem(self, row: Any) -> str:
        """Return the reason why a preset or its tool is not offered, or ""."""
        base = self.base_of(row)
        if base is not None and base.missing and not row.missing:
            return lookup.source_of(base).gone
        if (found := super().problem(row)) or base is None or base.enabled:
            return found
        return f"the tool that it is a preset of, {marked(base.name)}, is disabled"

    def check(self, row: Any, errors: Errors) -> None:
        """Check name, tool and fixed arguments."""
        collect(errors, "name", lambda: check_name(row.name))
        collect(errors, "preset_of", lambda: _check_base(row))
        if "preset_of" not in errors:
            collect(errors, "fixed_arguments", lambda: _check_fixed(row))
        if row.enabled and errors.keys().isdisjoint(("name", "preset_of", "fixed_arguments")):
            collect(errors, "name", lambda: _check_clients(row))

    def base_of(self, row: Any) -> Tool | None:
        """Return the tool behind a preset."""
        base: Tool | None = row.preset_of
        return base

    def arguments_of(self, row: Any) -> Any:
        """Return the input schema without the fixed arguments."""
        return arguments_of(row)

    def own_work(self, row: Any) -> list[Any]:
        """Return the values that determine the work of the tool behind a preset."""
        base = self.base_of(row)
        return [] if base is None else lookup.source_of(base).own_work(base)

    def bases(self) -> QuerySet[Tool]:
        """Return the tools from which presets can be made."""
        return Tool.objects.filter(preset_of=None).order_by("name")

    def made_from(self, rows: Iterable[Tool]) -> QuerySet[Tool]:
        """Return the presets of some tools."""
        return Tool.objects.filter(preset_of__in=[row.pk for row in rows])


def fixed(definition: ToolDefinition, base: Tool, preset: Tool) -> ToolDefinition:
    """Return a tool's definition under the preset's name, with the administrator's values for the tool.

    Callers cannot send the fixed arguments.
    """
    arguments = dict(preset.fixed_arguments)
    beneath = overlaid(stated(definition, definition.wire), base)
    wire = {**described(definition.wire, beneath), "name": preset.name, "title": preset.name}
    wire["inputSchema"] = without_arguments(definition.wire["inputSchema"], arguments)
    inner = definition.function
    return replace(
        definition,
        name=preset.name,
        wire=wire,
        function=replace(inner, bind=lambda given: inner.bind({**given, **arguments})),
        permission=beneath["permission"],
        fixed_arguments=arguments,
        whole_input=definition.wire["inputSchema"] if arguments else None,
        **{name: beneath[column] for name, column in COLUMNS.items()},
    )


def _check_clients(row: Tool) -> None:
    if not conf.get().strict_schemas:
        return
    if found := refusals({"name": row.name, "inputSchema": arguments_of(row)}):
        raise UnfitError(" ".join(f"{each} {each.rule.remedy}" for each in found))


def _check_base(row: Tool) -> None:
    if row.preset_of is None:
        raise UnfitError("Choose the tool this is a preset of.")
    if row.preset_of.preset_of_id is not None:
        raise UnfitError("A preset cannot be made from another preset.")


def _check_fixed(row: Tool) -> None:
    fixed = row.fixed_arguments
    if not isinstance(fixed, dict):
        raise UnfitError("This must be a JSON object of argument names and values.")
    schema = row.preset_of.input_schema if row.preset_of else {}
    properties = schema.get("properties", {})
    if unknown := sorted(fixed.keys() - properties.keys()):
        raise UnfitError(
            f"The tool has no argument {unknown[0]!r}. It has: {', '.join(properties) or 'none'}."
        )
    only = {key: value for key, value in schema.items() if key in ("$schema", "$defs", "definitions")}
    try:
        validator = validation.compile_schema({**only, "type": "object", "properties": properties})
    except validation.SchemaError:
        return  # A tool with an invalid schema is not offered, and its own page shows the reason.
    if not validator.is_valid(fixed):
        raise UnfitError(validator.explain(fixed))


PRESET: Final = PresetSource()
