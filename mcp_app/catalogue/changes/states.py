"""Conversion between stored states of entries and values for ``services``. Uploads are not converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.sources.base import Source
from mcp_app.models import Tool

State = Mapping[str, Any]


def editable_part(kind: type[Any], source: Source, state: State) -> dict[str, Any]:
    """Return the part of a state that an administrator may set, in the order of the model."""
    allowed = source.editable(kind)
    if "preset_of" in allowed and "preset_of" not in state and "preset_of_id" in state:
        state = {**state, "preset_of": _name_of(state["preset_of_id"])}
    names = [field.name for field in kind._meta.fields if field.name in allowed and field.name in state]
    return {name: state[name] for name in names}


def empty_state(kind: type[Any], source: Source) -> dict[str, Any]:
    """Return the editable part of a new entry."""
    return editable_part(kind, source, revisions.state_of(source.new(kind)))


def stored_form(value: Any) -> Any:
    """Convert a value for storage in a state. A tool is stored as its name."""
    return value.name if isinstance(value, Tool) else value


def service_values(state: State) -> dict[str, Any]:
    """Convert a part of a state to values for ``services``, without ``file``.

    Raises ValidationError if the tool of a preset no longer exists.
    """
    values = {name: value for name, value in state.items() if name != "file"}
    if values.get("preset_of") is not None:
        values["preset_of"] = _tool(values["preset_of"])
    return values


def _tool(name: str) -> Tool:
    found = Tool.objects.filter(name=name).first()
    if found is None:
        raise ValidationError(
            {"preset_of": [f"The tool {name!r} is no longer here: a preset needs its tool."]}
        )
    return found


def _name_of(number: int | None) -> str | None:
    """Return the name of a tool by its row id. States of earlier versions contain the row id only."""
    if number is None:
        return None
    name = Tool.objects.filter(pk=number).values_list("name", flat=True).first()
    return name or f"number {number}"
