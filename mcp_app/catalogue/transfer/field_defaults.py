"""What the fields of a code entry hold as long as no administrator has said anything of it."""

from __future__ import annotations

from typing import Any

from mcp_app.catalogue.changing import revisions
from mcp_app.catalogue.definitions.registry import registry
from mcp_app.catalogue.transfer.fields import empty_values
from mcp_app.models import CatalogueChange, Tool


class Untouched:
    """The values of code entries before any administrator; read from history once.

    The code gives a row its position and permission only when the row is made, and may say otherwise later;
    what was given then is not an administrator's word.
    """

    def __init__(self) -> None:
        made = CatalogueChange.objects.filter(action="mirrored", before__isnull=True).order_by("id")
        self._first: dict[tuple[str, str], dict[str, Any]] = {
            (kind, key): after or {} for kind, key, after in made.values_list("kind", "key", "after")
        }

    def values_of(self, row: Any) -> dict[str, Any]:
        """All fields of one code entry that an administrator may change, as code has them."""
        values = empty_values(type(row), row.source)
        definition = definition_of(type(row), revisions.key_of(row))
        values["permission"] = definition.permission if definition is not None else ""
        values["position"] = row.position
        first = self._first.get((revisions.kind_of(row), revisions.key_of(row)), {})
        values |= {name: first[name] for name in ("permission", "position") if name in first}
        if isinstance(row, Tool) and definition is not None:
            values["background"] = definition.background
        return values


def definition_of(kind: type[Any], key: str) -> Any:
    """The code that defines an entry, None when this installation has none."""
    homes: dict[str, dict[str, Any]] = {
        "tool": dict(registry.tools),
        "prompt": dict(registry.prompts),
        "resource": dict(registry.resources),
        "template": dict(registry.templates),
    }
    return homes[revisions.KIND_OF[kind]].get(key)
