"""Checks of the parts that tools of several sources have: output schema, hints, rules of clients."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import ValidationError

from mcp_app.catalogue.schemas import schema_bounds
from mcp_app.catalogue.schemas.client_rules import refusals
from mcp_app.catalogue.schemas.strict_json import check_storable
from mcp_app.catalogue.schemas.validation import SchemaError
from mcp_app.catalogue.sources.checking import UnfitError
from mcp_app.models import Tool

HINTS: Final = frozenset(("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"))


def check_stored(value: Any) -> None:
    """Raise UnfitError for a value that no database can store."""
    try:
        check_storable(value)
    except ValidationError as refused:
        raise UnfitError(refused.messages[0]) from None


def check_output(schema: Any) -> None:
    """Raise UnfitError for an output schema that cannot be announced."""
    if not schema:
        return
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UnfitError('An output schema is an object with "type": "object" at its root.')
    try:
        schema_bounds.compile_foreign(schema)
    except SchemaError as error:
        raise UnfitError(str(error)) from None


def check_hints(hints: Any) -> None:
    """Raise UnfitError for hints that clients would not understand."""
    if not isinstance(hints, dict) or hints.keys() - HINTS:
        raise UnfitError(f"Hints are an object with some of: {', '.join(sorted(HINTS))}.")
    for name, value in hints.items():
        if not isinstance(value, str if name == "title" else bool):
            raise UnfitError(f"{name} must be {'text' if name == 'title' else 'true or false'}.")


def check_clients(row: Tool) -> None:
    """Raise UnfitError for a schema that a common client refuses."""
    if found := refusals({"name": row.name, "inputSchema": row.input_schema}):
        raise UnfitError(" ".join(f"{each} {each.rule.remedy}" for each in found))
