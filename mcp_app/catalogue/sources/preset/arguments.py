"""The arguments that callers of a preset can send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_app.catalogue.definitions.definition import Wire
from mcp_app.models import Tool


def arguments_of(row: Tool) -> Any:
    """Return the input schema of a stored tool. A preset's schema lacks the fixed arguments."""
    if row.preset_of is None:
        return row.input_schema
    return without_arguments(row.preset_of.input_schema, row.fixed_arguments)


def without_arguments(schema: Wire, names: Mapping[str, Any]) -> Wire:
    """Return an input schema without the named properties."""
    reduced = dict(schema)
    reduced["properties"] = {
        key: value for key, value in schema.get("properties", {}).items() if key not in names
    }
    required = [name for name in schema.get("required", ()) if name not in names]
    reduced.pop("required", None)
    if required:
        reduced["required"] = required
    return reduced
