"""The precedence of values: an administrator's value overrides the source's value.

A switch that is on in the source stays on.

Entries, forms, history, export and import take effective values from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import Definition, ToolDefinition, Wire
from mcp_app.catalogue.definitions.tags import tags_in
from mcp_app.catalogue.definitions.tool_limits import COLUMNS, SWITCHES
from mcp_app.models import Tool
from mcp_app.models.catalogue import Row

# Column values that mean "use the source's value".
UNSET: Final[tuple[Any, ...]] = (None, "", [], {})
# Maps columns to members of the wire form and their types.
_WORDS: Final[dict[str, tuple[str, type]]] = {
    "title": ("title", str),
    "description": ("description", str),
    "icons": ("icons", list),
    "meta": ("_meta", dict),
}


def texts_of(wire: Any) -> dict[str, Any]:
    """Return the texts, icons, tags and ``_meta`` of a wire form by column."""
    members = wire if isinstance(wire, dict) else {}
    found = {column: (members.get(member), kind) for column, (member, kind) in _WORDS.items()}
    texts = {column: value for column, (value, kind) in found.items() if isinstance(value, kind)}
    return texts | ({"tags": list(tags)} if (tags := tags_in(members.get("_meta"))) else {})


def stated(definition: Definition, wire: Any) -> dict[str, Any]:
    """Return the values of a definition by column, with the texts from ``wire``."""
    values = {**texts_of(wire), "permission": definition.permission}
    if isinstance(definition, ToolDefinition):
        values |= {COLUMNS[name]: value for name, value in definition.limits().items()}
    return values


def overlaid(beneath: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """Return the effective values: the row's value if it is set, else the value in ``beneath``.

    A switch that is on in ``beneath`` stays on. Members of ``meta`` are merged, and its ``tags`` are the
    effective tags.
    """
    columns = (*_WORDS, "tags", "permission", *(COLUMNS.values() if isinstance(row, Tool) else ()))
    own = {name: getattr(row, name) for name in columns}
    values = {**beneath, **{name: value for name, value in own.items() if value not in UNSET}}
    meta = {**beneath.get("meta", {}), **(own["meta"] or {})}
    values["tags"] = list(own["tags"] or tags_in(meta))
    values["meta"] = {**meta, "tags": values["tags"]} if values["tags"] else meta
    if isinstance(row, Tool):
        values |= {name: bool(beneath.get(name)) or own[name] for name in SWITCHES}
    return values


def described(wire: Wire, values: Mapping[str, Any]) -> Wire:
    """Return the wire form with ``values`` as its title, description, icons and ``_meta``, if not empty."""
    return {**wire, **{member: values[name] for name, (member, _) in _WORDS.items() if values.get(name)}}
