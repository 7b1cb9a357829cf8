"""One immutable state of the catalogue, for all callers; each uses it through a view. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
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

KINDS = ("tools", "prompts", "resources")


class Catalogue:
    """What is offered at one revision.

    ``revision`` is the newest change it holds, ``revisions`` the revision at which each list last changed.
    ``max_running`` has the tools of which only so many calls may run at once over all workers, ``queues`` the
    queues of background tools ("" for the default one). ``templates`` are in the order in which they match,
    ``pages`` are the lists by their kind. ``built`` is what the next snapshot can reuse, ``prepared`` has
    what transports derive from this one for many clients. Nothing here asks who the caller is: that is for
    ``CatalogueView``.
    """

    __slots__ = (
        "_contents",
        "built",
        "max_running",
        "pages",
        "prepared",
        "prompts",
        "queues",
        "resources",
        "revision",
        "revisions",
        "secret_names",
        "templates",
        "tools",
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
        built: BuiltEntries = NOTHING_BUILT,
    ) -> None:
        self.revision = revision
        self.built = built
        self.prepared: dict[Any, Any] = {}
        self.revisions = dict(revisions)
        self.tools = {entry.name: entry for entry in tools}
        self.max_running = {
            entry.name: entry.max_running for entry in self.tools.values() if entry.max_running
        }
        self.queues = frozenset(entry.queue for entry in self.tools.values() if entry.background)
        self.secret_names: frozenset[str] = frozenset().union(
            *(entry.secret_names for entry in self.tools.values())
        )
        self.prompts = {entry.name: entry for entry in prompts}
        self.resources = {entry.uri: entry for entry in resources}
        # The newest first: callers usually know all but a few.
        contents = ((entry.content_revision, entry.uri) for entry in self.resources.values())
        self._contents = sorted((each for each in contents if each[0]), reverse=True)
        self.templates = sorted(templates, key=lambda entry: entry.order)
        codec = CursorCodec(secret)
        lists: dict[str, Iterable[Entry]] = {
            "tools": self.tools.values(),
            "prompts": self.prompts.values(),
            "resources": self.resources.values(),
            "templates": self.templates,
        }
        self.pages = {
            kind: Pages(kind, list(entries), size=page_size, codec=codec, revision=revision)
            for kind, entries in lists.items()
        }

    def updated_since(self, revision: int) -> list[str]:
        """The URIs of resources whose content an administrator changed after that revision, newest first."""
        newer = takewhile(lambda each: each[0] > revision, self._contents)
        return [uri for _, uri in newer]


EMPTY = Catalogue(revision=-1, revisions=dict.fromkeys(KINDS, -1))
