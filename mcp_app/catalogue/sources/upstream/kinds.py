"""The kinds of items that other servers list, and the entries that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_app.models import Prompt, Resource, ResourceTemplate, Tool
from mcp_app.models.catalogue import Row

MAX_NAME: Final = 256
MAX_URI: Final = 2_000
TEMPLATES_LIST: Final = "resources/templates/list"


@dataclass(frozen=True, slots=True)
class ItemKind:
    """A kind of items. ``key`` is the member that identifies an item at its server.

    ``member`` is the member of the server's list, and ``pinned`` are the members that an approval covers. All
    other members are not used.
    """

    row: type[Row]
    noun: str
    member: str
    capability: str
    key: str
    pinned: tuple[str, ...]

    @property
    def method(self) -> str:
        """The method that lists the items."""
        return TEMPLATES_LIST if self.row is ResourceTemplate else f"{self.member}/list"

    def is_usable(self, item: Mapping[str, Any]) -> bool:
        """Return True for an item with all members that an entry needs."""
        key, longest = item.get(self.key), MAX_NAME if self.key == "name" else MAX_URI
        if not isinstance(key, str) or not 0 < len(key) <= longest:
            return False
        if self.row is Tool:
            return isinstance(item.get("inputSchema"), dict)
        return isinstance(item.get("name"), str) and 0 < len(item["name"]) <= MAX_NAME


_CONTENT: Final = ("name", "title", "description", "mimeType", "annotations", "icons")
TOOLS: Final = ItemKind(
    Tool, "tool", "tools", "tools", "name",
    ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons"),
)  # fmt: skip
PROMPTS: Final = ItemKind(
    Prompt, "prompt", "prompts", "prompts", "name", ("name", "title", "description", "arguments", "icons")
)
RESOURCES: Final = ItemKind(Resource, "resource", "resources", "resources", "uri", ("uri", *_CONTENT))
TEMPLATES: Final = ItemKind(
    ResourceTemplate, "template", "resourceTemplates", "resources", "uriTemplate", ("uriTemplate", *_CONTENT)
)
KINDS: Final = (TOOLS, PROMPTS, RESOURCES, TEMPLATES)


@dataclass(frozen=True, slots=True)
class Item:
    """An item as its server lists it."""

    kind: ItemKind
    definition: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name or URI at the server."""
        return str(self.definition[self.kind.key])

    @property
    def key(self) -> str:
        """The key of the item among all items of its server."""
        return key_of(self.kind, self.name)


def key_of(kind: ItemKind, name: str) -> str:
    """Return the key of an item. Tools have their name as the key."""
    return name if kind is TOOLS else f"{kind.noun} {name}"


def kind_of(row: type[Row]) -> ItemKind:
    """Return the kind of the items that become entries of a kind."""
    return next(kind for kind in KINDS if kind.row is row)
