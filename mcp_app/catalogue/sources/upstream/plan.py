"""The stored request of a tool of another server: the server, its tool, and the approved definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.catalogue.definitions.definition import DefinitionError

# "parts" has a digest of each text as the server had it, so that an administrator's words are recognized.
MEMBERS: Final = frozenset(("upstream", "tool", "definition", "parts"))


@dataclass(frozen=True, slots=True)
class UpstreamPlan:
    """``definition`` is the digest of the server's definition that an administrator has published."""

    upstream: str
    tool: str
    definition: str

    @classmethod
    def read(cls, stored: Any) -> UpstreamPlan:
        """Return a stored plan. Raise DefinitionError."""
        if not isinstance(stored, Mapping) or stored.keys() - MEMBERS:
            raise DefinitionError(f"The request has the members {', '.join(sorted(MEMBERS))}.")
        found = [stored.get(name) for name in ("upstream", "tool", "definition")]
        texts = [value for value in found if isinstance(value, str) and value]
        if len(texts) < len(found) or not isinstance(stored.get("parts", {}), dict):
            raise DefinitionError("The request names an upstream server, its tool and a definition.")
        return cls(*texts)
