"""The stored request of an entry of another server: the server, its item, and the approved definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import DefinitionError
from mcp_app.catalogue.sources.upstream.kinds import TOOLS, ItemKind, key_of

# "parts" has a digest of each text as the server had it, so that an administrator's words are recognized.
_COMMON: Final = frozenset(("upstream", "definition", "parts"))


@dataclass(frozen=True, slots=True)
class UpstreamPlan:
    """``item`` is the name or URI at the server.

    ``definition`` is the digest of the server's definition that an administrator has published. ``ui`` is the
    URI at the server of the page that shows the results of a tool (MCP apps), or "".
    """

    kind: ItemKind
    upstream: str
    item: str
    definition: str
    ui: str = ""

    @property
    def key(self) -> str:
        """The key of the item among all items of its server."""
        return key_of(self.kind, self.item)

    @classmethod
    def read(cls, stored: Any, kind: ItemKind = TOOLS) -> UpstreamPlan:
        """Return a stored plan. Raise DefinitionError."""
        members = _COMMON | {kind.noun} | ({"ui"} if kind is TOOLS else set())
        if not isinstance(stored, Mapping) or stored.keys() - members:
            raise DefinitionError(f"The request has the members {', '.join(sorted(members))}.")
        found = [stored.get(name) for name in ("upstream", kind.noun, "definition")]
        texts = [value for value in found if isinstance(value, str) and value]
        ui = stored.get("ui", "")
        is_valid = isinstance(stored.get("parts", {}), dict) and isinstance(ui, str)
        if len(texts) < len(found) or not is_valid:
            raise DefinitionError(f"The request names an upstream server, its {kind.noun} and a definition.")
        upstream, item, definition = texts
        return cls(kind, upstream, item, definition, ui)
