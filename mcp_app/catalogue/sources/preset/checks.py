"""Checks of presets."""

from __future__ import annotations

from mcp_app import conf
from mcp_app.catalogue.schemas import validation
from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.sources.checking import Errors, UnfitError, collect
from mcp_app.catalogue.sources.preset.arguments import arguments_of
from mcp_app.models import Tool
from mcp_app.protocol.messages.names import check_name


def check_preset(row: Tool, errors: Errors) -> None:
    """Add the problems of a preset to ``errors``."""
    collect(errors, "name", lambda: check_name(row.name))
    collect(errors, "preset_of", lambda: _check_base(row))
    if "preset_of" not in errors:
        collect(errors, "fixed_arguments", lambda: _check_fixed(row))
    if row.enabled and errors.keys().isdisjoint(("name", "preset_of", "fixed_arguments")):
        collect(errors, "name", lambda: _check_clients(row))


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
