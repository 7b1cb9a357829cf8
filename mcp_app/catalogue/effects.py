"""The effect of a tool on data, as its annotations declare it."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from mcp_app.catalogue.sources.lookup import source_of
from mcp_app.models import Tool


class Effect(Enum):
    """The effect that a tool declares. The values are the text and the tone of its badge."""

    READS = ("read-only", "good")
    CHANGES = ("changes data", "warn")
    DESTROYS = ("destructive", "bad")
    # MCP's defaults: a tool that declares nothing may change and destroy data.
    UNKNOWN = ("may be destructive", "warn")

    @property
    def text(self) -> str:
        """The text of the badge."""
        return self.value[0]

    @property
    def tone(self) -> str:
        """The tone of the badge."""
        return self.value[1]

    @property
    def consequence(self) -> str:
        """The effect as a predicate, for sentences."""
        return _CONSEQUENCES[self]

    @property
    def may_destroy(self) -> bool:
        """True unless the tool declares that it does not destroy data."""
        return self in (Effect.DESTROYS, Effect.UNKNOWN)


_CONSEQUENCES: Final = {
    Effect.READS: "only reads data",
    Effect.CHANGES: "changes data",
    Effect.DESTROYS: "can delete or overwrite data",
    Effect.UNKNOWN: "may change or delete data",
}


def effect_of(annotations: Any) -> Effect:
    """Return the effect that the annotations of a tool declare, which may be any JSON value."""
    declared = annotations if isinstance(annotations, dict) else {}
    if declared.get("readOnlyHint") is True:
        return Effect.READS
    match declared.get("destructiveHint"):
        case True:
            return Effect.DESTROYS
        case False:
            return Effect.CHANGES
    return Effect.UNKNOWN


def declared_effect(tool: Tool) -> Effect:
    """Return the effect that a stored tool declares. For a preset, it is the effect of its base tool."""
    base = source_of(tool).base_of(tool) or tool
    return effect_of(source_of(base).annotations_of(base))
