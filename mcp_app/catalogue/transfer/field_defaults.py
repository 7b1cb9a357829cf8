"""The values that code entries have without changes by administrators."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.changes import revisions
from mcp_app.catalogue.definitions.tool_limits import SWITCHES
from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.catalogue.transfer.fields import empty_values
from mcp_app.models import CatalogueChange


class Untouched:
    """The original values of code entries, read from history once.

    Code sets a row's position and permission only when the row is created, and the code may change later. The
    values in the history's first state therefore count as unchanged.
    """

    def __init__(self) -> None:
        made = CatalogueChange.objects.filter(action="mirrored", before__isnull=True).order_by("id")
        self._first: dict[tuple[str, str], dict[str, Any]] = {
            (kind, key): after or {} for kind, key, after in made.values_list("kind", "key", "after")
        }

    def values_of(self, row: Any) -> dict[str, Any]:
        """Return all changeable fields of a code entry with their values from code."""
        source = source_of(row)
        beneath, values = source.in_force(row), empty_values(type(row), source)
        values |= {name: beneath[name] for name in SWITCHES if name in beneath}
        values |= {"permission": beneath.get("permission", ""), "position": row.position}
        first = self._first.get((revisions.kind_of(row), revisions.key_of(row)), {})
        return values | {name: first[name] for name in ("permission", "position") if name in first}
