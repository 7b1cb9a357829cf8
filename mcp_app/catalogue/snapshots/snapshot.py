"""The immutable catalogue at one revision, which all callers share through views. It does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from operator import attrgetter
from typing import Any

from mcp_app.catalogue.snapshots.entries import (
    NOTHING_BUILT,
    BuiltEntries,
    Entry,
    PromptEntry,
    ResourceEntry,
    ToolEntry,
)
from mcp_app.catalogue.snapshots.pages import Pages
from mcp_app.protocol.messages.pagination import CursorCodec
from mcp_app.protocol.messages.server import Server

KINDS = ("tools", "prompts", "resources")
_in_order = attrgetter("order")


class Catalogue:
    """The entries at one revision.

    ``revision`` is the newest change, and ``revisions`` has the last change of each list. ``max_running``
    maps each limited tool to its maximum of concurrent calls in all workers together. ``queues`` are the
    queues of background tools; "" is the default queue. ``templates`` are in matching order. ``pages`` are
    the lists by kind. The next snapshot reuses ``built``. Transports cache derived data in ``prepared``.
    ``search`` is the ``ToolSearch`` of a toolset whose tools are not listed.
    No template matches the URIs of ``withheld`` resources, which are outside of a toolset, nor a URI that a
    withheld template before it matches. ``matching`` are all these templates in matching order.
    ``sources`` are the stored names of the sources of all entries.
    ``toolsets`` are the enabled toolsets of a whole catalogue by path, and ``servers`` their servers.
    Callers and permissions belong to ``CatalogueView``.
    """

    __slots__ = (
        "_contents",
        "built",
        "matching",
        "max_running",
        "pages",
        "prepared",
        "prompts",
        "queues",
        "resources",
        "revision",
        "revisions",
        "search",
        "secret_names",
        "servers",
        "sources",
        "templates",
        "tools",
        "toolsets",
        "withheld",
    )

    def __init__(
        self,
        *,
        revision: int,
        revisions: Mapping[str, int],
        tools: Iterable[ToolEntry] = (),
        prompts: Iterable[PromptEntry] = (),
        resources: Iterable[ResourceEntry] = (),
        templates: Iterable[ResourceEntry] = (),
        page_size: int = 100,
        secret: bytes = b"no cursor was ever sent",
        withheld: Iterable[ResourceEntry] = (),
        search: Any = None,
        built: BuiltEntries = NOTHING_BUILT,
    ) -> None:
        self.revision = revision
        self.built = built
        self.prepared: dict[Any, Any] = {}
        self.toolsets: Mapping[str, Any] = {}
        self.servers: Mapping[str, Server] = {}
        self.revisions = dict(revisions)
        shown = () if search is None else search.entries()
        self.tools: dict[str, ToolEntry] = {entry.name: entry for entry in (*tools, *shown)}
        self.max_running = {each.name: each.max_running for each in self.tools.values() if each.max_running}
        self.queues = frozenset(entry.queue for entry in self.tools.values() if entry.background)
        self.secret_names: frozenset[str] = frozenset().union(
            *(entry.secret_names for entry in self.tools.values())
        )
        self.prompts = {entry.name: entry for entry in prompts}
        self.resources = {entry.uri: entry for entry in resources}
        # Newest first, because a caller has usually missed only the last few changes.
        contents = ((entry.content_revision, entry.uri) for entry in self.resources.values())
        self._contents = sorted((each for each in contents if each[0]), reverse=True)
        self.templates = sorted(templates, key=_in_order)
        self.search, hidden = search, list(withheld)
        self.withheld = frozenset(entry.uri for entry in hidden)
        self.matching = sorted((*self.templates, *(each for each in hidden if each.match)), key=_in_order)
        codec = CursorCodec(secret)
        lists: dict[str, Iterable[Entry]] = {
            "tools": self.tools.values() if search is None else search.entries(),
            "prompts": self.prompts.values(),
            "resources": self.resources.values(),
            "templates": self.templates,
        }
        self.pages = {
            kind: Pages(kind, list(entries), size=page_size, codec=codec, revision=revision)
            for kind, entries in lists.items()
        }
        self.sources = frozenset(entry.source for entries in lists.values() for entry in entries)

    def updated_since(self, revision: int) -> list[str]:
        """Return URIs of resources whose content was changed in the admin after a revision, newest first."""
        newer = takewhile(lambda each: each[0] > revision, self._contents)
        return [uri for _, uri in newer]


EMPTY = Catalogue(revision=-1, revisions=dict.fromkeys(KINDS, -1))
