"""The source of presets. A preset is made from a tool of any other source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from django.db.models import QuerySet

from mcp_app.catalogue.definitions.definition import ToolDefinition
from mcp_app.catalogue.definitions.tool_limits import COLUMNS
from mcp_app.catalogue.sources import lookup
from mcp_app.catalogue.sources.base import Adding, Source
from mcp_app.catalogue.sources.checking import Errors
from mcp_app.catalogue.sources.precedence import described, overlaid, stated
from mcp_app.catalogue.sources.preset.arguments import arguments_of, without_arguments
from mcp_app.catalogue.sources.preset.checks import check_preset
from mcp_app.interface.text import marked
from mcp_app.models import Tool


class PresetSource(Source):
    """Tools that administrators derive from another tool, with a new name and fixed arguments."""

    stored = label = "admin"
    kinds = (Tool,)
    variety = "preset"
    tone = "good"
    origin = unserved = ""
    own_fields = {Tool: ("name", "preset_of", "fixed_arguments")}
    adding = {Tool: Adding("preset", "Another tool by a new name, with some arguments fixed.")}
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
        check_preset(row, errors)

    def base_of(self, row: Any) -> Tool | None:
        """Return the tool behind a preset."""
        base: Tool | None = row.preset_of
        return base

    def arguments_of(self, row: Any) -> Any:
        """Return the input schema without the fixed arguments."""
        return arguments_of(row)

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


PRESET: Final = PresetSource()
