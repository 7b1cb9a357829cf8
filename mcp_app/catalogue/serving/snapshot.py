"""One immutable state of the catalogue, as a caller with given permissions may see and use it; no I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import takewhile
from typing import Any

from mcp_app.catalogue.definitions.definition import CompletionSource
from mcp_app.catalogue.serving import completion
from mcp_app.catalogue.serving.entries import (
    NOTHING_BUILT,
    BuiltEntries,
    Entry,
    PromptEntry,
    ResourceEntry,
    ToolEntry,
)
from mcp_app.catalogue.serving.pages import Pages
from mcp_app.protocol.errors import InvalidParams
from mcp_app.protocol.messages.pagination import CursorCodec

KINDS = ("tools", "prompts", "resources")


class Catalogue:
    """What is offered at one revision.

    ``revision`` is the newest change it holds, ``revisions`` the revision at which each list last changed.
    ``max_running`` has the tools of which only so many calls may run at once over all workers, ``queues`` the
    queues of background tools ("" for the default one). ``built`` is what the next snapshot can reuse.
    ``permissions`` is anything with ``in``; what the caller may not use does not exist for them (TOOL-08).
    """

    __slots__ = (
        "_contents",
        "_exact",
        "_pages",
        "_prompts",
        "_templates",
        "_tools",
        "built",
        "max_running",
        "queues",
        "revision",
        "revisions",
        "secret_names",
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
        self.revisions = dict(revisions)
        self._tools = {entry.name: entry for entry in tools}
        self.max_running = {
            entry.name: entry.max_running for entry in self._tools.values() if entry.max_running
        }
        self.queues = frozenset(entry.queue for entry in self._tools.values() if entry.background)
        self.secret_names: frozenset[str] = frozenset().union(
            *(entry.secret_names for entry in self._tools.values())
        )
        self._prompts = {entry.name: entry for entry in prompts}
        self._exact = {entry.uri: entry for entry in resources}
        # The newest first: callers usually know all but a few.
        contents = ((entry.content_revision, entry.uri) for entry in self._exact.values())
        self._contents = sorted((each for each in contents if each[0]), reverse=True)
        self._templates = sorted(templates, key=lambda entry: entry.order)
        codec = CursorCodec(secret)
        lists: dict[str, Iterable[Entry]] = {
            "tools": self._tools.values(),
            "prompts": self._prompts.values(),
            "resources": self._exact.values(),
            "templates": self._templates,
        }
        self._pages = {
            kind: Pages(kind, list(entries), size=page_size, codec=codec, revision=revision)
            for kind, entries in lists.items()
        }

    def tool(self, name: str, permissions: Container[str]) -> ToolEntry | None:
        """The tool, or None when there is none for this caller."""
        entry = self._tools.get(name)
        if entry is None or (entry.permission and entry.permission not in permissions):
            return None
        return entry

    def prompt(self, name: str, permissions: Container[str]) -> PromptEntry | None:
        """The prompt, or None when there is none for this caller."""
        entry = self._prompts.get(name)
        if entry is None or (entry.permission and entry.permission not in permissions):
            return None
        return entry

    def resource(self, uri: str, permissions: Container[str]) -> tuple[ResourceEntry, dict[str, str]] | None:
        """The resource and the template's variables; exact ones win, then the first template (TPL-04)."""
        entry = self._exact.get(uri)
        variables: dict[str, str] | None = {}
        if entry is None:
            entry, variables = self._matching(uri)
        if entry is None or (entry.permission and entry.permission not in permissions):
            return None
        return entry, variables or {}

    def _matching(self, uri: str) -> tuple[ResourceEntry | None, dict[str, str] | None]:
        for entry in self._templates:
            if entry.match is not None and (variables := entry.match(uri)) is not None:
                return entry, variables
        return None, None

    def updated_since(self, revision: int) -> list[str]:
        """The URIs of resources whose content an administrator changed after that revision, newest first."""
        newer = takewhile(lambda each: each[0] > revision, self._contents)
        return [uri for _, uri in newer]

    def page(self, kind: str, version: str, permissions: Container[str], cursor: str | None = None) -> bytes:
        """One page of ``tools``, ``prompts``, ``resources`` or ``templates`` as encoded JSON result.

        Raises InvalidParams for a cursor that is not ours (PAGE-02).
        """
        return self._pages[kind].page(version, permissions, cursor)

    async def complete(
        self,
        ref: Mapping[str, Any],
        argument_name: str,
        value: str,
        context_arguments: Mapping[str, str],
        permissions: Container[str],
    ) -> completion.Completed:
        """``(values, total, has_more)`` for an argument; raises InvalidParams for unknown names (COMP-04)."""
        names, sources = self._completable(ref, permissions)
        if argument_name not in names:
            raise InvalidParams(f"Unknown argument: {argument_name[:100]}")
        others = {name: text for name, text in context_arguments.items() if name in names}
        return await completion.complete(sources.get(argument_name), value, others)

    def _completable(
        self, ref: Mapping[str, Any], permissions: Container[str]
    ) -> tuple[Container[str], Mapping[str, CompletionSource]]:
        match ref:
            case {"type": "ref/prompt", "name": str(name)}:
                prompt = self.prompt(name, permissions)
                if prompt is None:
                    raise InvalidParams(f"Unknown prompt: {name[:200]}")
                return prompt.declared, prompt.completions
            case {"type": "ref/resource", "uri": str(uri)}:
                resource = self._referenced(uri, permissions)
                if resource is None:
                    raise InvalidParams(f"Unknown resource: {uri[:200]}")
                return resource.variables, resource.completions
        raise InvalidParams("'ref' must be {type: 'ref/prompt', name} or {type: 'ref/resource', uri}.")

    def _referenced(self, uri: str, permissions: Container[str]) -> ResourceEntry | None:
        """The template of exactly this text, else the resource that a URI leads to (COMP-02)."""
        for entry in self._templates:
            if entry.uri == uri:
                return entry if not entry.permission or entry.permission in permissions else None
        found = self.resource(uri, permissions)
        return found[0] if found else None


EMPTY = Catalogue(revision=-1, revisions=dict.fromkeys(KINDS, -1))
